import { type ChildProcess, spawn } from 'node:child_process'
import { fault, type ToolError } from '#core/errors'
import type { JsonValue } from '#core/json'
import type { Invocation } from '#core/ports/source'
import type { SourceServices } from '#core/ports/source-services'
import { answerQuestion } from './answer-question.ts'
import { type ChildPlan, childArguments, childEnvironment } from './child-arguments.ts'
import { type Answer, receivedError, type SentCall, type ToChild, type ToServer } from './messages.ts'
import type { DescribedTool } from './offer-tools.ts'

const START_MS = 30_000
const LOG_CHARACTERS = 2_000

export interface Described {
  readonly tools: readonly DescribedTool[]
  readonly warnings: readonly string[]
}

/** What a pack's process says about one call. */
type OfCall = Extract<ToServer, { readonly id: number }>

interface OpenCall {
  readonly invocation: Invocation
  readonly end: PromiseWithResolvers<Answer>
}

/** One life of a pack's process, from its start until it has ended, whatever ended it. */
export class PackProcess {
  readonly described: Promise<Described>
  /** Why it ended. */
  readonly ended: Promise<string>
  readonly #child: ChildProcess
  readonly #services: SourceServices
  readonly #killGraceMs: number
  readonly #calls = new Map<number, OpenCall>()
  #next = 0
  #isOver = false
  #said = ''
  #why: string | undefined

  constructor(plan: ChildPlan, services: SourceServices) {
    this.#services = services
    this.#killGraceMs = plan.options.killGraceMs
    this.#child = spawn(process.execPath, childArguments(plan), {
      cwd: plan.pack.root,
      env: childEnvironment(plan.options, services.environment ?? {}),
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      serialization: 'advanced',
      windowsHide: true,
    })
    const loaded = Promise.withResolvers<Described>()
    this.described = loaded.promise
    // Whoever waits is told; nobody has to.
    loaded.promise.catch(() => undefined)
    this.#child.on('message', (message: ToServer) => this.#hear(message, loaded))
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk: Buffer) => this.#note(chunk))
    }
    this.ended = new Promise((resolve) => {
      const end = (why: string) => {
        this.#isOver = true
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
    this.#send({ type: 'load', entry: plan.pack.entry })
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
    this.#calls.set(id, { invocation, end })
    const stop = () => this.#stop(id)
    signal.addEventListener('abort', stop, { once: true })
    try {
      this.#send({ type: 'invoke', id, call: sentCall(invocation, tool) })
      const answer = await end.promise
      if (!answer.ok) throw receivedError(answer.error)
      return isJson(answer.value) ? answer.value : undefined
    } finally {
      signal.removeEventListener('abort', stop)
      this.#calls.delete(id)
    }
  }

  /** By its own id alone. */
  kill(why: string): void {
    if (this.#isOver) return
    this.#why ??= why
    this.#child.kill('SIGKILL')
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
    else if (message.type === 'progress') context.progress(...message.progress)
    else if (message.type === 'log') context.log[message.level](message.fields, message.message)
    else {
      const { id, ask, question } = message
      answerQuestion(question, context).then((answer) => this.#send({ type: 'answer', id, ask, answer }))
    }
  }

  #send(message: ToChild): void {
    // Who is gone hears nothing; its end is told elsewhere.
    if (this.#child.connected) this.#child.send(message, () => undefined)
  }

  #note(chunk: Buffer): void {
    const said = chunk.toString('utf8')
    this.#said = (this.#said + said).slice(-LOG_CHARACTERS)
    this.#services.log.info({ said: said.slice(0, LOG_CHARACTERS) }, 'a pack wrote')
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

function isJson(value: unknown): value is JsonValue {
  return value !== undefined
}

function cutShort(why: string): ToolError {
  return fault(
    'upstream_failed',
    'The process of this tool ended before it answered. It may have taken effect: check before repeating it.',
    { developerMessage: `The pack's process: ${why}.` },
  )
}
