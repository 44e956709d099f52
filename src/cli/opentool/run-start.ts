import type { CommandContext } from '#cli/command'
import { exampleOpenToolCurl } from '#cli/example-call'
import { EXIT, type ExitCode } from '#cli/exit-codes'
import { loadProject } from '#cli/load-project'
import { serveUntilStopped } from '#cli/serve-until-stopped'
import { UsageError } from '#cli/usage-error'
import type { ApiKeySettings, Settings } from '#config/settings'
import { toSettings } from '#config/to-settings'
import { cleanText } from '#core/json'
import { DEFAULT_TENANT } from '#core/principal'
import { Secret } from '#core/secret'
import { DEFAULT_PORT } from '#protocols/opentool/wire'
import {
  type OpenToolRequest,
  readKeys,
  readOpenToolRequest,
  type StartRequest,
  splitKeys,
} from './read-start.ts'
import { START_HELP } from './start-help.ts'

/** `collet opentool …` as the guidelines have it, exit codes included (OTS-70 to OTS-76). */
export async function runOpenToolCommand(
  argv: readonly string[],
  context: CommandContext,
): Promise<ExitCode> {
  const { output, environment } = context
  let request: OpenToolRequest
  let keys: readonly string[] = []
  try {
    request = readOpenToolRequest(argv)
    if (request.kind === 'start') {
      const given = request.keys
      keys = given.length > 0 ? given : readKeys(splitKeys([environment.opentoolKeys?.reveal() ?? '']))
    }
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    output.error(cleanText(error.message))
    output.data(START_HELP)
    return EXIT.opentoolUsage
  }
  if (request.kind === 'start') return await start(request, keys, context)
  if (request.kind === 'unknown') output.error(`Unknown command: ${cleanText(request.word)}`)
  output.data(START_HELP)
  return request.kind === 'help' ? EXIT.ok : EXIT.toolFailed
}

async function start(
  request: StartRequest,
  keys: readonly string[],
  context: CommandContext,
): Promise<ExitCode> {
  const { environment, workingFolder } = context
  const { host, store } = request
  const { loaded, tools } = await loadProject(request.config, context)
  const flags = {
    port: request.port ?? DEFAULT_PORT,
    ...(host === undefined ? {} : { host }),
    ...(store === undefined ? {} : { store }),
  }
  const settings = toSettings({ loaded, tools, flags, environment, workingFolder })
  return await serveUntilStopped(
    withKeys({ ...settings, opentool: overrule(settings.opentool, request) }, keys),
    { allowAnonymous: false, allowStop: request.allowStop, example: exampleOpenToolCurl },
    context,
  )
}

function overrule(configured: Settings['opentool'], { version, streaming }: StartRequest) {
  return {
    ...configured,
    version: version ?? configured.version,
    streaming: streaming || configured.streaming,
  }
}

/**
 * Keys of the command line say nothing about who holds them: all act as one principal, `key:opentool`, which may call
 * every tool of the config and do nothing else.
 */
function withKeys(settings: Settings, keys: readonly string[]): Settings {
  const known = new Set(settings.auth.apiKeys.map(({ key }) => key.reveal()))
  const scopes = [...new Set(settings.tools.flatMap(({ policy }) => policy.scopes))]
  const added = keys
    .filter((key) => !known.has(key))
    .map((key): ApiKeySettings => ({ id: 'opentool', key: new Secret(key), tenant: DEFAULT_TENANT, scopes }))
  return { ...settings, auth: { ...settings.auth, apiKeys: [...settings.auth.apiKeys, ...added] } }
}
