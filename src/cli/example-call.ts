import type { Settings } from '#config/settings'
import type { JsonObject } from '#core/json'
import type { Tool } from '#core/tool'
import { exampleInput } from './example-input.ts'

/** Looking further costs start-up time: each look compiles a validator. */
const MOST_LOOKS = 20

/** A `curl` line that can be pasted and works: a tool that needs nothing, changes nothing if possible, and takes the input. */
export function exampleCurl(url: string, settings: ExampleSettings): string | undefined {
  const tool = easyTool(settings)
  if (tool === undefined) return undefined
  const body = { request: { tool_id: tool.id, input: exampleInput(tool.inputSchema) } }
  return curl(`${url}/tools/call`, credentialHeader(settings.auth), body)
}

/** The same for OpenTool, where keys travel as bearers. */
export function exampleOpenToolCurl(url: string, settings: ExampleSettings): string | undefined {
  const tool = easyTool(settings)
  if (tool === undefined) return undefined
  const { name, inputSchema } = tool
  const isOpen = settings.auth.apiKeys.length === 0 && settings.auth.jwt === undefined
  const body = { jsonrpc: '2.0', method: name, params: exampleInput(inputSchema), id: '1' }
  return curl(`${url}/opentool/call`, isOpen ? [] : ['-H "Authorization: Bearer $COLLET_API_KEY"'], body)
}

type ExampleSettings = Pick<Settings, 'tools' | 'auth'>

function easyTool({ tools }: ExampleSettings): Tool | undefined {
  const easy = tools.filter((tool) => tool.requirements === undefined && tool.policy.scopes.length === 0)
  const harmless = easy.filter(({ policy }) => policy.safetyTier === 'pure' || policy.safetyTier === 'read')
  return [...harmless, ...easy].slice(0, MOST_LOOKS).find(takesItsExample)
}

function curl(url: string, credential: readonly string[], body: JsonObject): string {
  return [
    `curl -s ${shellQuote(url)}`,
    `-H 'content-type: application/json'`,
    ...credential,
    `-d ${shellQuote(JSON.stringify(body))}`,
  ].join(' ')
}

function takesItsExample(tool: Tool): boolean {
  return tool.checkInput(exampleInput(tool.inputSchema)).length === 0
}

/** The credential itself is never printed: the shell fills it in. */
function credentialHeader({ apiKeys, jwt }: Settings['auth']): string[] {
  if (apiKeys.length > 0) return ['-H "OXP-API-Key: $COLLET_API_KEY"']
  return jwt === undefined ? [] : ['-H "Authorization: Bearer $COLLET_TOKEN"']
}

function shellQuote(text: string): string {
  return /^[A-Za-z0-9_./:@=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
