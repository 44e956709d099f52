import { type ChildProcess, spawn } from 'node:child_process'
import { Duplex } from 'node:stream'
import { fault, type ToolError } from '#core/errors'
import { copyJson, type JsonValue } from '#core/json'
import { JSON_BOUNDS } from '#core/json-bounds'
import type { Invocation, SourceServices } from '#core/ports/source'
import { answerQuestion } from './answer-question.ts'
import { type ChannelEvents, PackChannel } from './channel.ts'
import { type ChildPlan, childCommand, childEnvironment } from './child-arguments.ts'
import {
  type Answer,
  MOST_MESSAGE_BYTES,
  receivedError,
  type SentCall,
  type ToChild,
  type ToServer,
} from './messages.ts'
import type { DescribedTool } from './offer-tools.ts'
import { parseMessage } from './parse-message.ts'

const START_MS = 30_000
const LOG_CHARACTERS = 2_000
/** What a pack prints and nobody asked for. */
const LOG_LINES_A_SECOND = 20
/** Requests and questions of one call that are open at once. */
const MOST_ASKED = 32
const MIB = 1024 * 1024

/** Our own part of the process keeps these; the pack's code can write to the same pipe. */
export const PROCESS_BOUNDS = {
  mostLineBytes: MOST_MESSAGE_BYTES,
  mostMessages: 1_000,
  mostBytes: 32 * MIB,
  mostUnreadBytes: 64 * MIB,
  // An answer of as many values as are let through, and what is around it.
  json: { deepest: JSON_BOUNDS.deepest + 16, mostValues: JSON_BOUNDS.mostValues + 100 },
}

export interface Described {
  readonly tools: readonly DescribedTool[]
  readonly warnings: readonly string[]
}

/** What a pack's process says about one call. */
type OfCall = Extract<ToServer, { readonly id: number }>

interface OpenCall {
  readonly invocation: Invocation
  readonly end: PromiseWithResolvers<Answer>
  /** Requests and questions that are open. */
  asked: number
}

/** One life of a pack's process, from its start until it has ended, whatever ended it. */
export class PackProcess {
  readonly described: Promise<Described>
  /** Why it ended. */
  readonly ended: Promise<string>
  readonly #child: ChildProcess
  readonly #channel: PackChannel | undefined
  readonly #services: SourceServices
  readonly #killGraceMs: number
  readonly #calls = new Map<number, OpenCall>()
  #next = 0
  #isOver = false
  #said = ''
  #noteSecond = 0
  #notes = 0
  #why: string | undefined

  constructor(plan: ChildPlan, services: SourceServices) {
    this.#services = services
    this.#killGraceMs = plan.options.killGraceMs
    ignoreDebugSignal()
    const [program = '', ...args] = childCommand(plan)
    this.#child = spawn(program, args, {
      cwd: plan.pack.root,
      env: childEnvironment(plan.options, services.environment ?? {}),
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      // A group of its own: it is ended with all it started, and a signal to its own group does not reach us.
      detached: true,
      windowsHide: true,
    })
    const endWatch = watchOver(this.#child)
    const loaded = Promise.withResolvers<Described>()
    this.described = loaded.promise
    // Whoever waits is told; nobody has to.
    loaded.promise.catch(() => undefined)
    this.#channel = openChannel(this.#child, {
      onMessage: (message) => {
        const read = parseMessage(message)
        if (read === undefined) this.kill('it sent a message that makes no sense')
        else this.#hear(read, loaded)
      },
      onBroken: (why) => this.kill(why),
    })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk: Buffer) => this.#note(chunk))
    }
    this.ended = new Promise((resolve) => {
      const end = (why: string) => {
        this.#isOver = true
        endWatch()
        loaded.reject(fault('upstream_failed', `The pack did not start: ${why}.`))
        for (const call of this.#calls.values()) call.end.reject(cutShort(why))
        this.#calls.clear()
        resolve(why)
      }
      this.#child.once('error', (error) => end(error.message))
      this.#child.once('exit', (code, signal) =>
        end(this.#why ?? `it ended with ${signal ?? `exit code ${code}`}${this.#lastWords()}`),
      )
    })
    const mayStartPrograms = plan.options.grant.includes('subprocess')
    this.#send({ type: 'load', entry: plan.pack.entry, mayStartPrograms })
    const patience = setTimeout(() => this.kill(`it was not ready after ${START_MS} ms`), START_MS).unref()
    loaded.promise.then(
      () => clearTimeout(patience),
      () => clearTimeout(patience),
    )
  }

  get isOver(): boolean {
    return this.#isOver
  }

  get calls(): number {
    return this.#calls.size
  }

  /** Rule 9: from here on the tool may have done anything; only its own author can say that it did not. */
  async invoke(invocation: Invocation, tool: DescribedTool): Promise<JsonValue | undefined> {
    const { signal } = invocation.context
    signal.throwIfAborted()
    this.#next += 1
    const id = this.#next
    const end = Promise.withResolvers<Answer>()
    this.#calls.set(id, { invocation, end, asked: 0 })
    const stop = () => this.#stop(id)
    signal.addEventListener('abort', stop, { once: true })
    try {
      this.#send({ type: 'invoke', id, call: sentCall(invocation, tool) })
      const answer = await end.promise
      if (!answer.ok) throw receivedError(answer.error)
      return answer.value === undefined ? undefined : checked(answer.value)
    } finally {
      signal.removeEventListener('abort', stop)
      this.#calls.delete(id)
    }
  }

  /** With everything that it started. */
  kill(why: string): void {
    if (this.#isOver) return
    this.#why ??= why
    killGroup(this.#child)
  }

  /** A tool that does not let go when it is told to takes its process with it: nothing else can stop a loop. */
  #stop(id: number): void {
    this.#send({ type: 'abort', id })
    const { nativeName } = this.#calls.get(id)?.invocation ?? {}
    setTimeout(() => {
      if (this.#calls.has(id)) this.kill(`${nativeName} did not stop when it was told to`)
    }, this.#killGraceMs).unref()
  }

  #hear(message: ToServer, loaded: PromiseWithResolvers<Described>): void {
    if (message.type === 'loaded') loaded.resolve(message)
    else if (message.type === 'broken') {
      loaded.reject(fault('upstream_failed', message.message))
      this.kill(message.message)
    } else {
      const call = this.#calls.get(message.id)
      if (call !== undefined) this.#hearOf(call, message)
    }
  }

  #hearOf(call: OpenCall, message: OfCall): void {
    const { context } = call.invocation
    if (message.type === 'ended') call.end.resolve(message.end)
    else if (message.type === 'progress') context.progress(message.done, message.total, message.message)
    else if (message.type === 'log') context.log[message.level](message.fields, message.message)
    else if (call.asked >= MOST_ASKED) this.kill(`it asked for more than ${MOST_ASKED} things at once`)
    else {
      const { id, ask, question } = message
      call.asked += 1
      answerQuestion(question, context).then((answer) => {
        call.asked -= 1
        this.#send({ type: 'answer', id, ask, answer })
      })
    }
  }

  #send(message: ToChild): void {
    this.#channel?.send(message)
  }

  #note(chunk: Buffer): void {
    const said = chunk.subarray(-LOG_CHARACTERS).toString('utf8')
    this.#said = (this.#said + said).slice(-LOG_CHARACTERS)
    const second = Math.floor(performance.now() / 1_000)
    if (second !== this.#noteSecond) [this.#noteSecond, this.#notes] = [second, 0]
    this.#notes += 1
    if (this.#notes <= LOG_LINES_A_SECOND) this.#services.log.info({ said }, 'a pack wrote')
  }

  /** The error that Node wrote when it gave up, if it did. */
  #lastWords(): string {
    const error = /^\w*(?:Error|FATAL ERROR)\b.*$/m.exec(this.#said)?.[0]
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

/** It ran: only its answer is lost (rule 9). */
function checked(value: unknown): JsonValue {
  const copied = copyJson(value)
  if (copied.ok) return copied.value
  throw fault(copied.tooLarge ? 'result_too_large' : 'output_invalid', 'The tool gave something unusable.', {
    developerMessage: `${copied.pointer}: ${copied.problem}`,
  })
}

/** The fourth of its streams; none when it could not be started. */
function openChannel(child: ChildProcess, events: ChannelEvents): PackChannel | undefined {
  const [, , , pipe] = child.stdio
  return pipe instanceof Duplex ? new PackChannel(pipe, PROCESS_BOUNDS, events) : undefined
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // ESRCH: nobody is left in the group.
  }
}

/**
 * Ends the group of `child` when this process is gone, also when nobody could tell it so: a loop hears nothing. The pipe to the
 * shell closes with us, whatever ended us. Gives a function that ends the watch.
 */
function watchOver(child: ChildProcess): () => void {
  if (child.pid === undefined || process.platform === 'win32') return () => undefined
  const watch = spawn('/bin/sh', ['-c', 'read -r _; kill -s KILL -- "-$1"', 'sh', String(child.pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    cwd: '/',
    env: {},
    // Ctrl-C on our terminal is not for it.
    detached: true,
  })
  watch.on('error', () => undefined)
  watch.stdin.on('error', () => undefined)
  watch.unref()
  return () => watch.kill('SIGKILL')
}

/**
 * Node opens its debugger to whoever may send SIGUSR1, and code that is kept from files and programs may: a listener takes that
 * away. It stays for good, because without it the signal would end us. `--inspect` opens the debugger as before.
 */
function ignoreDebugSignal(): void {
  if (!process.listeners('SIGUSR1').includes(doNothing)) process.on('SIGUSR1', doNothing)
}

function doNothing(): void {}

function cutShort(why: string): ToolError {
  return fault(
    'upstream_failed',
    'The process of this tool ended before it answered. It may have taken effect: check before repeating it.',
    { developerMessage: `The pack's process: ${why}.` },
  )
}
