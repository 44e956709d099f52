import { hash } from 'node:crypto'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { Socket } from 'node:net'
import type { ElicitationAnswer } from '#kernel/base/elicitation'
import { fault } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import type { Logger, WriteLine } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import type { StatefulContext, Tool } from '#kernel/tool/tool'
import { PackChannel } from './channel.ts'
import { describePack, type LoadedPack, loadPack, runPackTool } from './load.ts'
import {
  type Answer,
  deserializeError,
  MAX_MESSAGE_BYTES,
  type Question,
  type SentCall,
  type SentResponse,
  serializeError,
  type ToChild,
  type ToServer,
} from './messages.ts'

/*
 * The process of a pack: runs its tools, and asks the server for everything outside the process.
 * `process.ts` starts it, in a sandbox if there is one.
 * Invariant: the process ends when the pipe to its server closes.
 */

interface RunningTool {
  readonly abort: AbortController
  readonly questions: Map<number, PromiseWithResolvers<Answer>>
}

const running = new Map<number, RunningTool>()
let pack: LoadedPack | undefined
let lastQuestionNo = 0

/** The pipe to the server, after the three standard streams. */
const CHANNEL_FD = 3
const MAX_LINE_LENGTH = 2_000
const MAX_FIELD_CHARACTERS = 64 * 1024
/** Messages from the server are not bounded here. */
const TRUSTED = {
  maxLineBytes: Number.POSITIVE_INFINITY,
  maxMessages: Number.POSITIVE_INFINITY,
  maxBytes: Number.POSITIVE_INFINITY,
  maxUnreadBytes: Number.POSITIVE_INFINITY,
  json: { maxDepth: Number.POSITIVE_INFINITY, maxValues: Number.POSITIVE_INFINITY },
}

const socket = new Socket({ fd: CHANNEL_FD, readable: true, writable: true })
// The server is gone, so no answer can be delivered.
socket.once('close', () => process.exit(0))
const channel = new PackChannel(socket, TRUSTED, {
  onMessage: (message) => {
    if (isToChild(message)) handleMessage(message)
  },
  onBroken: () => process.exit(1),
})

/** False if the message was too large. */
function sendToServer(message: ToServer): boolean {
  return channel.send(message, MAX_MESSAGE_BYTES)
}

async function load(entry: string, mayStartPrograms: boolean): Promise<void> {
  try {
    lockDown({ mayStartPrograms })
    pack = await loadPack(entry)
    if (!sendToServer({ type: 'loaded', ...describePack(pack) })) {
      sendToServer({ type: 'broken', message: `The definitions exceed ${MAX_MESSAGE_BYTES} bytes.` })
    }
  } catch (error) {
    sendToServer({ type: 'broken', message: error instanceof Error ? error.message : String(error) })
  }
}

async function invoke(id: number, call: SentCall): Promise<void> {
  const tool = pack?.tools.get(call.nativeName)
  const run: RunningTool = { abort: new AbortController(), questions: new Map() }
  running.set(id, run)
  try {
    if (tool === undefined)
      throw fault('upstream_failed', `The pack no longer has a tool ${call.nativeName}.`)
    const value = await runPackTool(tool, call.input, contextOf(id, call, tool, run))
    if (sendToServer({ type: 'ended', id, end: { ok: true, value } })) return
    throw fault('result_too_large', `The result has more than ${MAX_MESSAGE_BYTES} bytes.`)
  } catch (error) {
    sendToServer({ type: 'ended', id, end: { ok: false, error: serializeError(error) } })
  } finally {
    running.delete(id)
  }
}

function contextOf(id: number, call: SentCall, tool: Tool, run: RunningTool): StatefulContext<unknown> {
  const ask = async (question: Question): Promise<Answer & { readonly ok: true }> => {
    lastQuestionNo += 1
    const waiting = Promise.withResolvers<Answer>()
    run.questions.set(lastQuestionNo, waiting)
    if (!sendToServer({ type: 'ask', id, questionNo: lastQuestionNo, question })) {
      run.questions.delete(lastQuestionNo)
      throw fault('tool_failed', `The tool tried to send more than ${MAX_MESSAGE_BYTES} bytes at once.`)
    }
    const answer = await waiting.promise
    if (!answer.ok) throw deserializeError(answer.error)
    return answer
  }
  const { callId, traceId, principal, userId, claimedUserId, userInfo } = call
  return {
    ...{ callId, traceId, principal, userId, claimedUserId, userInfo, session: undefined },
    signal: run.abort.signal,
    token: (name) => credential(tool, name, call.tokens[name]),
    secret: (name) => credential(tool, name, call.secrets[name]),
    fetch: (resource, init) => askToSend(new Request(resource, init), run.abort.signal, ask),
    log: loggerOf(id),
    progress: (done, total, message) => {
      // JSON has only finite numbers.
      if (!Number.isFinite(done)) return
      const shown = defined({
        total: Number.isFinite(total) ? total : undefined,
        message: message?.slice(0, MAX_LINE_LENGTH),
      })
      sendToServer({ type: 'progress', id, done, ...shown })
    },
    message: (level, data, logger) =>
      void sendToServer({ type: 'message', id, level, data, ...defined({ logger }) }),
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

/** Asks the server to send the request with its guarded fetch. Both bodies are transferred whole. */
async function askToSend(
  request: Request,
  ended: AbortSignal,
  ask: (question: Question) => Promise<Answer & { readonly ok: true }>,
): Promise<Response> {
  const body = request.body === null ? undefined : Buffer.from(await request.arrayBuffer()).toString('base64')
  ended.throwIfAborted()
  const { url, method, redirect } = request
  const init = { method, headers: [...request.headers], redirect, ...defined({ body }) }
  const { value } = await ask({ what: 'fetch', url, init })
  if (!isSentResponse(value)) throw new TypeError('the server did not return a response')
  const { status, statusText, headers } = value
  const isEmpty = status === 204 || status === 205 || status === 304
  const bytes = isEmpty ? null : Buffer.from(value.body, 'base64')
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
    (level: keyof Logger): WriteLine =>
    (first: object | string, text?: string) => {
      const [fields, line] = typeof first === 'string' ? [{}, first] : [first, text ?? '']
      const message = String(line).slice(0, MAX_LINE_LENGTH)
      sendToServer({ type: 'log', id, level, fields: plain(fields), message })
    }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}

/** The fields of a log line as JSON; fields that are too long or not JSON are dropped. */
function plain(fields: object): Readonly<Record<string, unknown>> {
  try {
    const text = JSON.stringify(fields)
    return text.length > MAX_FIELD_CHARACTERS ? { tooLong: text.length } : JSON.parse(text)
  } catch {
    return {}
  }
}

/** Checks only the outermost structure, because messages from the server are trusted. */
function isToChild(message: unknown): message is ToChild {
  return typeof message === 'object' && message !== null && 'type' in message
}

function handleMessage(message: ToChild): void {
  if (message.type === 'load') void load(message.entry, message.mayStartPrograms)
  else if (message.type === 'invoke') void invoke(message.id, message.call)
  else if (message.type === 'abort') {
    running.get(message.id)?.abort.abort(new DOMException('The call was ended.', 'AbortError'))
  } else {
    const questions = running.get(message.id)?.questions
    questions?.get(message.questionNo)?.resolve(message.answer)
    questions?.delete(message.questionNo)
  }
}

/** Functions that reach other processes and that Node's permission model does not cover. */
const PROCESS_FUNCTIONS = [
  'kill',
  '_kill',
  '_debugProcess',
  '_debugEnd',
  'binding',
  '_linkedBinding',
  'execve',
]
/** `setFlagsFromString` could raise the heap limit, and `setPriority` could slow down the server. */
const MODULE_FUNCTIONS = { 'node:os': 'setPriority', 'node:v8': 'setFlagsFromString' }

/**
 * Removes functions that pack code must not use, before any of it is loaded. This is a second line of defence: the server
 * ignores the debugging signal, Node's permission model covers files and programs, and with bubblewrap no other process is
 * visible.
 */
function lockDown({ mayStartPrograms }: { readonly mayStartPrograms: boolean }): void {
  const load = createRequire(import.meta.url)
  for (const name of PROCESS_FUNCTIONS) Reflect.deleteProperty(process, name)
  for (const [module, name] of Object.entries(MODULE_FUNCTIONS)) disableFunction(load(module), name)
  if (!mayStartPrograms) {
    // This includes `ChildProcess`, because an instance that was never started can send signals to any pid.
    const programs: object = load('node:child_process')
    for (const name of Object.keys(programs)) disableFunction(programs, name)
  }
  // The removal also applies to `import { kill } from 'node:process'`.
  syncBuiltinESMExports()
}

function disableFunction(module: object, name: string): void {
  Reflect.defineProperty(module, name, {
    value: () => {
      throw Object.assign(new Error(`${name} is not available to packs.`), { code: 'ERR_ACCESS_DENIED' })
    },
    enumerable: true,
  })
}
