import type { Settings } from '#config/settings'
import type { Tool } from '#core/tool'
import { exampleInput } from './example-input.ts'

/** Looking further costs start-up time: each look compiles a validator. */
const MOST_LOOKS = 20

/** A `curl` line that can be pasted and works: a tool that needs nothing, changes nothing if possible, and takes the input. */
export function exampleCurl(
  url: string,
  { tools, auth }: Pick<Settings, 'tools' | 'auth'>,
): string | undefined {
  const easy = tools.filter((tool) => tool.requirements === undefined && tool.policy.scopes.length === 0)
  const harmless = easy.filter(({ policy }) => policy.safetyTier === 'pure' || policy.safetyTier === 'read')
  const tool = [...harmless, ...easy].slice(0, MOST_LOOKS).find(takesItsExample)
  if (tool === undefined) return undefined
  const body = JSON.stringify({ request: { tool_id: tool.id, input: exampleInput(tool.inputSchema) } })
  return [
    `curl -s ${shellQuote(`${url}/tools/call`)}`,
    `-H 'content-type: application/json'`,
    ...credentialHeader(auth),
    `-d ${shellQuote(body)}`,
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
