import { dirname } from 'node:path'
import type { Arguments } from '#cli/arguments'
import { defineCommand } from '#cli/command'
import { keepRestarting } from '#cli/keep-restarting'
import { loadProject } from '#cli/load-project'
import { serveUntilStopped } from '#cli/serve-until-stopped'
import { watchFolder } from '#cli/watch-folder'
import { findConfig } from '#config/load'
import { type SettingsFlags, toSettings } from '#config/to-settings'

const LARGEST_PORT = 65_535

type ServeOption = 'config' | 'host' | 'port' | 'store' | 'watch' | 'allow-anonymous' | 'test-seams'

export const serve = defineCommand<ServeOption>({
  name: 'serve',
  summary: 'Starts the server with the tools of a config.',
  details: [
    'Ctrl-C ends it: running calls may finish, then they are cancelled. A second Ctrl-C ends it at once.',
  ],
  positionals: [],
  options: {
    config: {
      value: 'F',
      help: 'Config file. Default: COLLET_CONFIG, or collet.config.{ts,js,mjs,json} here.',
    },
    host: { value: 'H', help: 'Address to listen on. Default 127.0.0.1.' },
    port: { value: 'N', help: 'Port to listen on; 0 = any free one. Default 4100.' },
    store: {
      value: 'URL',
      help: 'sqlite:PATH or memory:. Default sqlite:.collet/collet.db next to the config.',
    },
    watch: { help: 'Restart when a file next to the config, or below, changes.' },
    'allow-anonymous': { help: 'Listen beyond this machine although the config has no auth.' },
    'test-seams': { help: 'Serve what the openwop conformance suite drives. Never in production.' },
  },
  examples: [
    'collet serve',
    'collet serve --config tools/collet.config.ts --port 8080 --watch',
    'collet serve --store memory: --port 0',
  ],
  async run(args, context) {
    const flags = readFlags(args)
    const { environment, workingFolder, output } = context
    if (args.flag('watch')) {
      const folder = dirname(findConfig(workingFolder, args.text('config') ?? environment.configFile))
      const childArguments = withoutWatch(args)
      output.note(`Watching ${folder}`)
      return await keepRestarting({
        start: () => context.startProcess(childArguments),
        watch: (onChange) => watchFolder(folder, onChange),
        onStop: context.onStop,
        note: (line) => output.note(line),
      })
    }
    const { loaded, tools } = await loadProject(args.text('config'), context)
    const settings = toSettings({ loaded, tools, flags, environment, workingFolder })
    const allowAnonymous = args.flag('allow-anonymous')
    return await serveUntilStopped(settings, { allowAnonymous, testSeams: args.flag('test-seams') }, context)
  },
})

function readFlags(args: Arguments<ServeOption>): SettingsFlags {
  const host = args.text('host')
  const port = args.integer('port', { least: 0, most: LARGEST_PORT })
  const store = args.text('store')
  return {
    ...(host === undefined ? {} : { host }),
    ...(port === undefined ? {} : { port }),
    ...(store === undefined ? {} : { store }),
  }
}

/** The same command line for the child process. */
function withoutWatch(args: Arguments<ServeOption>): string[] {
  const values = (['config', 'host', 'port', 'store'] as const).flatMap((name) => {
    const value = args.text(name)
    return value === undefined ? [] : [`--${name}=${value}`]
  })
  const switches = (['allow-anonymous', 'test-seams'] as const).flatMap((name) =>
    args.flag(name) ? [`--${name}`] : [],
  )
  return ['serve', ...values, ...switches]
}
