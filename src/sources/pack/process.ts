import { existsSync, realpathSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { fault, type ToolError } from '#kernel/base/errors'
import { copyJson, type JsonValue } from '#kernel/base/json'
import type { StatefulContext } from '#kernel/tool/tool'
import { ANSWER_BOUNDS } from '#sources/common/answered-json'
import { ChildGroup } from '#sources/common/child-group'
import { SHARED_NETWORK } from '#sources/common/process'
import type { Invocation, SourceServices } from '#sources/kit/source'
import { type ChannelEvents, PackChannel } from './channel.ts'
import type { DescribedPack, DescribedTool, LocatedPack } from './load.ts'
import {
  type Answer,
  deserializeError,
  MAX_MESSAGE_BYTES,
  parseMessage,
  type Question,
  type SentCall,
  type SentResponse,
  serializeError,
  type ToChild,
  type ToServer,
} from './messages.ts'
import type { Need, PackOptions } from './options.ts'

/**
 * Starts the process of a pack in its sandbox, sends it calls, answers its requests, and ends it. `supervisor.ts` uses it.
 * Invariant: the process does not outlive the server, and is killed if a tool does not stop on request.
 */

const START_MS = 30_000
const LOG_CHARACTERS = 2_000
/** Maximum number of log lines per second for the output of a pack. */
const LOG_LINES_PER_SECOND = 20
/** Maximum number of concurrent requests and questions from one call. */
const MAX_OPEN_REQUESTS = 32
const MIB = 1024 * 1024

/** `child.ts` stays within these bounds, but the code of the pack can write to the same pipe. */
export const PROCESS_BOUNDS = {
  maxLineBytes: MAX_MESSAGE_BYTES,
  maxMessages: 1_000,
  maxBytes: 32 * MIB,
  maxUnreadBytes: 64 * MIB,
  json: ANSWER_BOUNDS,
}

interface OpenCall {
  readonly invocation: Invocation
  readonly end: PromiseWithResolvers<Answer>
  openRequests: number
}

export class PackProcess {
  readonly described: Promise<DescribedPack>
  readonly ended: Promise<string>
  readonly #group: ChildGroup
  readonly #channel: PackChannel | undefined
  readonly #services: SourceServices
  readonly #killGraceMs: number
  readonly #calls = new Map<number, OpenCall>()
  #next = 0
  #hasEnded = false
  #output = ''
  #noteSecond = 0
  #notes = 0
  #why: string | undefined

  constructor(plan: ChildPlan, services: SourceServices) {
    this.#services = services
    this.#killGraceMs = plan.options.killGraceMs
    ignoreDebugSignal()
    this.#group = new ChildGroup({
      command: childCommand(plan),
      cwd: plan.pack.root,
      env: childEnvironment(plan.options, services.environment ?? {}),
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      // A pack in an endless loop would not notice that the server is gone.
      isWatched: true,
    })
    const { child } = this.#group
    const loaded = Promise.withResolvers<DescribedPack>()
    this.described = loaded.promise
    this.#channel = openChannel(child, {
      onMessage: (message) => {
        const read = parseMessage(message)
        if (read === undefined) this.kill('it sent an invalid message')
        else this.#onMessage(read, loaded)
      },
      onBroken: (why) => this.kill(why),
    })
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => this.#note(chunk))
    }
    this.ended = new Promise((resolve) => {
      const end = (why: string) => {
        this.#hasEnded = true
        loaded.reject(fault('upstream_failed', `The pack did not start: ${why}.`))
        for (const call of this.#calls.values()) call.end.reject(endedEarly(why))
        this.#calls.clear()
        resolve(why)
      }
      child.once('error', (error) => end(error.message))
      child.once('exit', (code, signal) =>
        end(this.#why ?? `it ended with ${signal ?? `exit code ${code}`}${this.#fatalError()}`),
      )
    })
    const mayStartPrograms = plan.options.grant.includes('subprocess')
    this.#send({ type: 'load', entry: plan.pack.entry, mayStartPrograms })
    const startTimer = setTimeout(() => this.kill(`it was not ready after ${START_MS} ms`), START_MS).unref()
    // The error of a failed start is thrown where `described` is awaited.
    loaded.promise.catch(() => undefined).finally(() => clearTimeout(startTimer))
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** The number of calls that run in the process. */
  get calls(): number {
    return this.#calls.size
  }

  /** Sends a call to the process. Any failure after that may follow an effect, unless the tool itself states otherwise (rule 9). */
  async invoke(invocation: Invocation, tool: DescribedTool): Promise<JsonValue | undefined> {
    const { signal } = invocation.context
    signal.throwIfAborted()
    this.#next += 1
    const id = this.#next
    const end = Promise.withResolvers<Answer>()
    this.#calls.set(id, { invocation, end, openRequests: 0 })
    const stop = () => this.#stop(id)
    signal.addEventListener('abort', stop, { once: true })
    try {
      this.#send({ type: 'invoke', id, call: sentCall(invocation, tool) })
      const answer = await end.promise
      if (!answer.ok) throw deserializeError(answer.error)
      return answer.value === undefined ? undefined : checked(answer.value)
    } finally {
      signal.removeEventListener('abort', stop)
      this.#calls.delete(id)
    }
  }

  /** Kills the process and everything that it started. */
  kill(why: string): void {
    if (this.#hasEnded) return
    this.#why ??= why
    this.#group.kill()
  }

  /** Asks a tool to stop, and kills the process if it does not, because nothing else can stop an endless loop. */
  #stop(id: number): void {
    this.#send({ type: 'abort', id })
    const { nativeName } = this.#calls.get(id)?.invocation ?? {}
    setTimeout(() => {
      if (this.#calls.has(id)) this.kill(`${nativeName} did not stop on request`)
    }, this.#killGraceMs).unref()
  }

  #onMessage(message: ToServer, loaded: PromiseWithResolvers<DescribedPack>): void {
    if (message.type === 'loaded') loaded.resolve(message)
    else if (message.type === 'broken') {
      loaded.reject(fault('upstream_failed', message.message))
      this.kill(message.message)
    } else {
      const call = this.#calls.get(message.id)
      if (call !== undefined) this.#onCallMessage(call, message)
    }
  }

  #onCallMessage(call: OpenCall, message: Extract<ToServer, { readonly id: number }>): void {
    const { context } = call.invocation
    if (message.type === 'ended') call.end.resolve(message.end)
    else if (message.type === 'progress') context.progress(message.done, message.total, message.message)
    else if (message.type === 'message') context.message(message.level, message.data, message.logger)
    else if (message.type === 'log') context.log[message.level](message.fields, message.message)
    else if (call.openRequests >= MAX_OPEN_REQUESTS)
      this.kill(`it sent more than ${MAX_OPEN_REQUESTS} requests at once`)
    else {
      const { id, questionNo, question } = message
      call.openRequests += 1
      answerQuestion(question, context).then((answer) => {
        call.openRequests -= 1
        this.#send({ type: 'answer', id, questionNo, answer })
      })
    }
  }

  #send(message: ToChild): void {
    this.#channel?.send(message)
  }

  #note(chunk: Buffer): void {
    const output = chunk.subarray(-LOG_CHARACTERS).toString('utf8')
    this.#output = (this.#output + output).slice(-LOG_CHARACTERS)
    const second = Math.floor(performance.now() / 1_000)
    if (second !== this.#noteSecond) [this.#noteSecond, this.#notes] = [second, 0]
    this.#notes += 1
    if (this.#notes <= LOG_LINES_PER_SECOND) this.#services.log.info({ output }, 'output of a pack')
  }

  /** The fatal error that Node wrote, if there is one. */
  #fatalError(): string {
    const error = /^\w*(?:Error|FATAL ERROR)\b.*$/m.exec(this.#output)?.[0]
    return error === undefined ? '' : `: ${error}`
  }
}

function sentCall({ nativeName, input, context }: Invocation, { requirements }: DescribedTool): SentCall {
  const { callId, traceId, principal, userId, claimedUserId, userInfo } = context
  const tokens = (requirements?.authorization ?? []).map(({ id }) => [id, context.token(id).reveal()])
  const secrets = (requirements?.secrets ?? []).map(({ id }) => [id, context.secret(id).reveal()])
  return {
    ...{ nativeName, input, callId, traceId, principal, userId, claimedUserId, userInfo },
    tokens: Object.fromEntries(tokens),
    secrets: Object.fromEntries(secrets),
    effectKey: context.effectKey(),
  }
}

/** Checks the result of a tool. If it cannot be used, the tool ran and only its result is lost (rule 9). */
function checked(value: unknown): JsonValue {
  const copied = copyJson(value)
  if (copied.ok) return copied.value
  const code = copied.tooLarge ? 'result_too_large' : 'output_invalid'
  throw fault(code, 'The tool returned a value that cannot be used.', {
    developerMessage: `${copied.pointer}: ${copied.problem}`,
  })
}

/** The channel on the fourth stream; `undefined` if the process could not be started. */
function openChannel(child: ChildGroup['child'], events: ChannelEvents): PackChannel | undefined {
  const [, , , pipe] = child.stdio
  return pipe instanceof Duplex ? new PackChannel(pipe, PROCESS_BOUNDS, events) : undefined
}

/**
 * Prevents Node from opening its debugger on SIGUSR1, which even a pack without access to files and programs can send. The listener
 * is never removed, because then the signal would end this process. `--inspect` still opens the debugger.
 */
function ignoreDebugSignal(): void {
  if (!process.listeners('SIGUSR1').includes(doNothing)) process.on('SIGUSR1', doNothing)
}

function doNothing(): void {}

function endedEarly(why: string): ToolError {
  const message =
    "The tool's process ended before the tool answered. The call may have taken effect: check before repeating it."
  return fault('upstream_failed', message, { developerMessage: `The pack's process: ${why}.` })
}

const IS_SOURCE = import.meta.url.endsWith('.ts')
const CHILD = fileURLToPath(new URL(IS_SOURCE ? './child.ts' : './child.js', import.meta.url))
/** Three folders above `dist/sources/pack` or `src/sources/pack`. */
const OWN_ROOT = resolve(dirname(CHILD), '../../..')
/** The files of this package that the process reads. Not the whole package, because it may contain the data of a server run from source. */
const OWN_FILES = [resolve(dirname(CHILD), '../..'), join(OWN_ROOT, 'package.json')]

interface ChildPlan {
  readonly pack: LocatedPack
  readonly options: PackOptions
  /** The folder to which relative paths in the options refer. */
  readonly folder: string
  /** Absolute path of a `bwrap` that works here. */
  readonly bwrap: string | undefined
}

const EVERYTHING = '*'

/** Folders of Node and system programs, which contain no user data. */
const SYSTEM = ['/usr', '/lib', '/lib64', '/bin', '/sbin', '/nix/store', '/etc/ld.so.cache', '/etc/localtime']
/** Files that network access needs: name resolution and certificates. */
const NETWORK = ['/etc/resolv.conf', '/etc/hosts', '/etc/nsswitch.conf', '/etc/ssl']

/** The command line of a pack's process, in its sandbox if there is one. */
function childCommand(plan: ChildPlan): readonly string[] {
  const node = [process.execPath, ...nodeArguments(plan)]
  return plan.bwrap === undefined ? node : [plan.bwrap, ...sandboxArguments(plan), '--', ...node]
}

/** A command line that succeeds if such a sandbox can run Node here. */
export function probeCommand(plan: ChildPlan & { readonly bwrap: string }): readonly string[] {
  return [plan.bwrap, ...sandboxArguments(plan), '--', process.execPath, '--version']
}

/** True if a sandboxed pack can reach other systems only with `ctx.fetch`. Access to files rules this out, because of sockets. */
export function isSealed({ grant }: Pick<PackOptions, 'grant'>): boolean {
  const capabilities: readonly Need[] = ['net.dns', 'net.outbound', 'fs.read', 'fs.write']
  return !capabilities.some((capability) => grant.includes(capability))
}

/**
 * The arguments for a sandbox with its own process, network and mount namespaces. Files that the pack may not read do not exist in
 * it, so no link or socket leads out of it, and other processes cannot be seen or signalled.
 */
function sandboxArguments(plan: ChildPlan): readonly string[] {
  const { grant } = plan.options
  const { reads, writes } = pathsOf(plan)
  const hasNetwork = grant.includes('net.dns') || grant.includes('net.outbound')
  const bindable = [...SYSTEM, ...(hasNetwork ? NETWORK : []), process.execPath, ...reads]
  return [
    ...(reads.includes(EVERYTHING)
      ? ['--ro-bind', '/', '/']
      : bindable.flatMap((path) => ['--ro-bind-try', path, path])),
    ...['--dev', '/dev', '--proc', '/proc', '--unshare-all', '--die-with-parent'],
    ...(hasNetwork ? SHARED_NETWORK : []),
    ...writes.flatMap((path) => ['--bind-try', path, path]),
    ...['--chdir', plan.pack.root],
  ]
}

function pathsOf({ pack, options, folder }: ChildPlan) {
  const { grant, readable, writable } = options
  const mayRead = grant.includes('fs.read')
  const reads =
    mayRead && readable === undefined
      ? [EVERYTHING]
      : [
          ...[...OWN_FILES, pack.own, ...modulesAbove(OWN_ROOT), ...modulesAbove(pack.root)],
          ...(mayRead ? (readable ?? []).map((path) => resolve(folder, path)) : []),
        ]
  const writes = grant.includes('fs.write') ? writable.map((path) => resolve(folder, path)) : []
  return { reads: [...new Set(reads)], writes }
}

/** The options of Node: a memory limit, and the permission model for files and programs, which does not cover the network. */
function nodeArguments(plan: ChildPlan): readonly string[] {
  const { grant, memoryMb } = plan.options
  const { reads, writes } = pathsOf(plan)
  return [
    `--max-old-space-size=${memoryMb}`,
    '--permission',
    ...reads.map((path) => `--allow-fs-read=${path}`),
    ...writes.map((path) => `--allow-fs-write=${path}`),
    ...(grant.includes('subprocess') ? ['--allow-child-process'] : []),
    // `ATTACH` of a database would access files despite the permission model.
    '--no-experimental-sqlite',
    '--disable-sigusr1',
    '--disable-warning=ExperimentalWarning',
    '--disable-warning=SecurityWarning',
    ...(IS_SOURCE ? ['--conditions=collet-source'] : []),
    CHILD,
  ]
}

/** The environment variables that the operator names; none without `env.read`. */
function childEnvironment(
  { grant, env }: Pick<PackOptions, 'grant' | 'env'>,
  own: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> {
  if (!grant.includes('env.read')) return {}
  return Object.fromEntries(env.flatMap((name) => (own[name] === undefined ? [] : [[name, own[name]]])))
}

/** The `node_modules` folders in which imports from this folder are looked up, with the targets of symbolic links. */
function modulesAbove(folder: string): readonly string[] {
  const found: string[] = []
  for (let current = folder; ; current = dirname(current)) {
    const modules = join(current, 'node_modules')
    if (existsSync(modules)) found.push(modules, realpathSync(modules))
    if (dirname(current) === current) return found
  }
}

/** Answers a request from the process with the context of its call, so that the limits and the signal of the call apply. */
async function answerQuestion(question: Question, context: StatefulContext<unknown>): Promise<Answer> {
  try {
    if (question.what === 'elicit') return { ok: true, value: await context.elicit(question.question) }
    const { body, ...init } = question.init
    const request = { ...init, ...(body === undefined ? {} : { body: Buffer.from(body, 'base64') }) }
    return { ok: true, value: await toSent(await context.fetch(question.url, request)) }
  } catch (error) {
    return { ok: false, error: serializeError(error) }
  }
}

async function toSent(response: Response): Promise<SentResponse> {
  const { status, statusText, headers } = response
  const body = Buffer.from(await response.arrayBuffer()).toString('base64')
  return { status, statusText, headers: [...headers], body }
}
