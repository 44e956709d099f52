import { hash } from 'node:crypto'
import { fault } from '#core/errors'
import type { ElicitationAnswer } from '#core/ports/elicitation'
import type { Logger, WriteLine } from '#core/ports/logger'
import { Secret } from '#core/secret'
import type { StatefulContext, Tool } from '#core/tool'
import { type LoadedPack, loadPack } from './load-pack.ts'
import {
  type Answer,
  type LogLevel,
  type Question,
  receivedError,
  type SentCall,
  type SentResponse,
  sentError,
  type ToChild,
  type ToServer,
} from './messages.ts'
import { describeTool } from './offer-tools.ts'
import { runPackTool } from './run-pack-tool.ts'

/** The process of a pack: runs its tools, and asks the server for whatever leaves it. */
interface RunningTool {
  readonly abort: AbortController
  readonly asked: Map<number, PromiseWithResolvers<Answer>>
}

const running = new Map<number, RunningTool>()
let pack: LoadedPack | undefined
let asks = 0

function tell(message: ToServer): void {
  if (process.connected) process.send?.(message)
}

async function load(entry: string): Promise<void> {
  try {
    pack = await loadPack(entry)
    const tools = [...pack.tools].map(([name, tool]) => describeTool(name, tool))
    tell({ type: 'loaded', tools: JSON.parse(JSON.stringify(tools)), warnings: pack.warnings })
  } catch (error) {
    tell({ type: 'broken', message: error instanceof Error ? error.message : String(error) })
  }
}

async function invoke(id: number, call: SentCall): Promise<void> {
  const tool = pack?.tools.get(call.nativeName)
  const held: RunningTool = { abort: new AbortController(), asked: new Map() }
  running.set(id, held)
  try {
    if (tool === undefined)
      throw fault('upstream_failed', `The pack has no tool ${call.nativeName} any more.`)
    const value = await runPackTool(tool, call.input, contextOf(id, call, tool, held))
    tell({ type: 'ended', id, end: { ok: true, value } })
  } catch (error) {
    tell({ type: 'ended', id, end: { ok: false, error: sentError(error) } })
  } finally {
    running.delete(id)
  }
}

function contextOf(id: number, call: SentCall, tool: Tool, held: RunningTool): StatefulContext<unknown> {
  const ask = async (question: Question): Promise<Answer & { readonly ok: true }> => {
    asks += 1
    const waiting = Promise.withResolvers<Answer>()
    held.asked.set(asks, waiting)
    tell({ type: 'ask', id, ask: asks, question })
    const answer = await waiting.promise
    if (!answer.ok) throw receivedError(answer.error)
    return answer
  }
  const { callId, traceId, principal, userId, claimedUserId, userInfo } = call
  return {
    ...{ callId, traceId, principal, userId, claimedUserId, userInfo, session: undefined },
    signal: held.abort.signal,
    token: (name) => credential(tool, name, call.tokens[name]),
    secret: (name) => credential(tool, name, call.secrets[name]),
    fetch: (resource, init) => askToSend(new Request(resource, init), held.abort.signal, ask),
    log: loggerOf(id),
    progress: (...progress) => tell({ type: 'progress', id, progress }),
    elicit: async (question) => {
      const { value } = await ask({ what: 'elicit', question })
      return isElicitationAnswer(value) ? value : { action: 'decline' }
    },
    effectKey: (ordinal = 0) =>
      ordinal === 0 ? call.effectKey : hash('sha256', `${call.effectKey}.${ordinal}`, 'base64url'),
  }
}

function credential(tool: Tool, name: string, value: string | undefined): Secret {
  if (value !== undefined) return new Secret(value)
  throw fault('tool_failed', 'The tool asked for a credential it did not declare.', {
    developerMessage: `${tool.id} must list '${name}' in its requirements.`,
  })
}

/** The request goes out through the server's own guarded way, as a whole, and the answer comes back as one. */
async function askToSend(
  request: Request,
  ended: AbortSignal,
  ask: (question: Question) => Promise<Answer & { readonly ok: true }>,
): Promise<Response> {
  const body = request.body === null ? undefined : new Uint8Array(await request.arrayBuffer())
  ended.throwIfAborted()
  const { url, method, redirect } = request
  const init = { method, headers: [...request.headers], body, redirect }
  const { value } = await ask({ what: 'fetch', url, init })
  if (!isSentResponse(value)) throw new TypeError('the server answered something else')
  const { status, statusText, headers } = value
  const isEmpty = status === 204 || status === 205 || status === 304
  const bytes = isEmpty ? null : new Uint8Array(value.body)
  return new Response(bytes, { status, statusText, headers: headers.map(([name, text]) => [name, text]) })
}

function isSentResponse(value: unknown): value is SentResponse {
  return typeof value === 'object' && value !== null && 'status' in value && 'body' in value
}

function isElicitationAnswer(value: unknown): value is ElicitationAnswer {
  return typeof value === 'object' && value !== null && 'action' in value
}

function loggerOf(id: number): Logger {
  const write =
    (level: LogLevel): WriteLine =>
    (said: object | string, text?: string) => {
      const [fields, message] = typeof said === 'string' ? [{}, said] : [said, text ?? '']
      tell({ type: 'log', id, level, fields: plain(fields), message: String(message) })
    }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}

/** What cannot be cloned is not worth a crash. */
function plain(fields: object): object {
  try {
    return JSON.parse(JSON.stringify(fields))
  } catch {
    return {}
  }
}

process.on('message', (message: ToChild) => {
  if (message.type === 'load') void load(message.entry)
  else if (message.type === 'invoke') void invoke(message.id, message.call)
  else if (message.type === 'abort') {
    running.get(message.id)?.abort.abort(new DOMException('The call was ended.', 'AbortError'))
  } else {
    const asked = running.get(message.id)?.asked
    asked?.get(message.ask)?.resolve(message.answer)
    asked?.delete(message.ask)
  }
})
// The server is gone: nothing that runs here has anybody to answer to.
process.on('disconnect', () => process.exit(0))
