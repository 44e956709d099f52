import { defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import { loadProject } from '#cli/load-project'
import { cleanJson, cleanText } from '#core/json'
import { VERSION } from '#server/protocol-routes'

const INDENT = 2
/** What a careful reader of the document should know; the rest only says more than OpenTool can. */
const WORTH_A_LINE: ReadonlySet<string> = new Set(['approximated', 'unrepresentable'])

export const opentoolExport = defineCommand<
  'config' | 'title' | 'version' | 'description' | 'url' | 'strict'
>({
  name: 'opentool export',
  summary: 'Prints an OpenTool document of the tools of a config, newest version of each.',
  details: ['What OpenTool cannot say exactly is noted on stderr, tool by tool.'],
  positionals: [],
  options: {
    config: {
      value: 'F',
      help: 'Config file. Default: COLLET_CONFIG, or collet.config.{ts,js,mjs,json} here.',
    },
    title: { value: 'T', help: 'Title of the document. Default: as the config says, or Collet.' },
    version: {
      value: 'V',
      help: 'Version of the document. Default: as the config says, or the version of this program.',
    },
    description: { value: 'D', help: 'Description of the document. Default: as the config says, or none.' },
    url: { value: 'U', help: 'Server to name in the document.' },
    strict: { help: 'Exit code 1 if a tool is left out, or described only about right.' },
  },
  examples: [
    'collet opentool export > opentool.json',
    'collet opentool export --title Mail --version 2.1.0 --strict',
  ],
  async run(args, context) {
    const { output, json } = context
    const { loaded, tools } = await loadProject(args.text('config'), context)
    const { documentOf } = await import('#protocols/opentool/codec-convert-tools')
    const { opentool } = loaded.config
    const description = args.text('description') ?? opentool.description
    const url = args.text('url')
    const { document, losses, skipped } = documentOf(
      tools,
      {
        title: args.text('title') ?? opentool.title,
        ...(description === undefined ? {} : { description }),
        version: args.text('version') ?? opentool.version ?? VERSION,
      },
      url === undefined ? {} : { server: { url } },
    )
    const told = losses.filter(({ severity }) => WORTH_A_LINE.has(severity))
    for (const { toolId, side, pointer, keyword, severity } of told) {
      output.warn(cleanText(`${toolId}: ${side}${pointer}: ${keyword} is ${severity}`))
    }
    for (const { id } of skipped) output.warn(`${id} is left out: OpenTool cannot describe it.`)
    output.data(cleanJson(document, json ? 0 : INDENT))
    return args.flag('strict') && (told.length > 0 || skipped.length > 0) ? EXIT.toolFailed : EXIT.ok
  },
})
