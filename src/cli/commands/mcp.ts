import { defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import { loadProject } from '#cli/load-project'
import { toSettings } from '#config/to-settings'

export const mcp = defineCommand<'config' | 'store'>({
  name: 'mcp',
  summary: 'Serves the tools of a config to one MCP client, on stdin and stdout.',
  details: [
    'MCP clients start it themselves. Messages go to stdout, logs and what tools print to stderr.',
    'It ends when stdin closes. COLLET_API_KEY says whose calls they are, once the config has auth.',
  ],
  positionals: [],
  options: {
    config: {
      value: 'F',
      help: 'Config file. Default: COLLET_CONFIG, or collet.config.{ts,js,mjs,json} here.',
    },
    store: {
      value: 'URL',
      help: 'sqlite:PATH or memory:. Default sqlite:.collet/collet.db next to the config.',
    },
  },
  examples: ['collet mcp', 'collet mcp --config tools/collet.config.ts --store memory:'],
  async run(args, context) {
    const { environment, workingFolder, services, stdin, output } = context
    // Before any file of the project is loaded: what those print is no message either.
    const stdout = context.takeStdout()
    const { loaded, tools } = await loadProject(args.text('config'), context)
    const store = args.text('store')
    const flags = store === undefined ? {} : { store }
    const settings = toSettings({ loaded, tools, flags, environment, workingFolder })
    const stopped = Promise.withResolvers<void>()
    const endStop = context.onStop(() => stopped.resolve())
    const endRejections = context.onStrayRejection((reason) => {
      output.warn(`A tool left a failed promise behind: ${String(reason)}`)
    })
    try {
      const server = await services.startStdio(settings, {
        apiKey: environment.apiKey,
        write: (line) => stdout.write(`${line}\n`),
      })
      await Promise.race([server.serve(stdin), stopped.promise])
      await server.close()
      return EXIT.ok
    } finally {
      endStop()
      endRejections()
    }
  },
})
