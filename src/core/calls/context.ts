import type { CallRequest } from '#core/call'
import { fault, isToolError, type ToolError } from '#core/errors'
import type { JsonValue } from '#core/json'
import type { Principal } from '#core/principal'
import {
  boundLogger,
  type Elicitation,
  type ElicitationAnswer,
  type Logger,
  type WriteLine,
} from '#core/runtime'
import type { Secret } from '#core/secret'
import { hasEffects, type SessionContext, type StatefulContext, type Tool } from '#core/tool'
import type { CallServices } from './gateway.ts'
import { redactLogged, redactText } from './redact.ts'
import type { Interruption, RunningCall } from './running.ts'

/** What one run of a tool gets. The abort controller is made only for tools that look at the signal. */
export class RunContext implements StatefulContext<unknown>, SessionContext {
  /** What `open` gave, for tools that keep state. */
  session: unknown
  readonly #services: CallServices
  readonly #running: RunningCall
  #abort: AbortController | undefined
  #aborted: Interruption | undefined

  constructor(services: CallServices, running: RunningCall) {
    this.#services = services
    this.#running = running
  }

  get callId(): string {
    return this.#running.call.callId
  }

  get sessionId(): string {
    return this.#running.place.session?.sessionId ?? ''
  }

  get traceId(): string {
    return this.#running.call.request.traceId ?? ''
  }

  get traceparent(): string | undefined {
    return this.#running.call.request.traceparent
  }

  get principal(): Principal {
    return this.#running.call.principal
  }

  get userId(): string | undefined {
    const { call } = this.#running
    return call.isUserProven ? call.request.userId : undefined
  }

  get claimedUserId(): string | undefined {
    return this.#running.call.request.userId
  }

  get userInfo(): JsonValue | undefined {
    return this.#running.call.request.userInfo
  }

  get log(): Logger {
    const { tool, call } = this.#running
    return cleanLogger(boundLogger(this.#services.log, { tool: tool.id, record: call.record }), call.request)
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.#aborted !== undefined) this.#abort.abort(reasonOf(this.#aborted))
    }
    return this.#abort.signal
  }

  get isAborted(): boolean {
    return this.#aborted !== undefined
  }

  token(id: string): Secret {
    return declared(this.#running.tool, {
      id,
      kind: 'authorization',
      value: this.#running.call.request.tokens.get(id),
    })
  }

  secret(id: string): Secret {
    return declared(this.#running.tool, {
      id,
      kind: 'secrets',
      value: this.#running.call.request.secrets.get(id),
    })
  }

  readonly fetch: typeof fetch = (resource, init) => {
    const own = init?.signal ?? (resource instanceof Request ? resource.signal : undefined)
    const signal = own === undefined ? this.signal : AbortSignal.any([this.signal, own])
    const { traceparent } = this
    if (traceparent === undefined) return this.#send(resource, { ...init, signal })
    const headers = new Headers(init?.headers ?? (resource instanceof Request ? resource.headers : undefined))
    if (!headers.has('traceparent')) headers.set('traceparent', traceparent)
    return this.#send(resource, { ...init, signal, headers })
  }

  /** One request that was not sent says nothing about what the run did before it (rule 9). */
  async #send(...request: Parameters<typeof fetch>): Promise<Response> {
    try {
      return await this.#services.fetch(...request)
    } catch (error) {
      const saysRetry = isToolError(error) && error.canRetry
      throw saysRetry && hasEffects(this.#running.tool.policy) ? withoutRetry(error) : error
    }
  }

  progress(done: number, total?: number, message?: string): void {
    if (this.#aborted !== undefined) return
    this.#running.call.request.onProgress?.({ done, total, message })
  }

  async elicit(question: Elicitation): Promise<ElicitationAnswer> {
    const ask = this.#running.call.request.onElicit
    if (ask === undefined) return { action: 'decline' }
    return await this.#running.whileAsking(() => ask(question, this.signal))
  }

  effectKey(ordinal = 0): string {
    const { call } = this.#running
    const parts = [call.principal.tenant, call.principal.id, call.record, ordinal]
    return this.#services.store.approvals.sign('effect', JSON.stringify(parts))
  }

  abort(why: Interruption): void {
    this.#aborted = why
    this.#abort?.abort(reasonOf(why))
  }
}

function withoutRetry({ code, message, developerMessage, cause }: ToolError): ToolError {
  return fault(code, message, { cause, ...(developerMessage === undefined ? {} : { developerMessage }) })
}

function reasonOf(why: Interruption): DOMException {
  return why === 'timeout'
    ? new DOMException('The tool ran out of time.', 'TimeoutError')
    : new DOMException(`The call was ended by ${why}.`, 'AbortError')
}

/** A tool gets only what it declared (T-21). */
function declared(
  tool: Tool,
  asked: {
    readonly id: string
    readonly kind: 'authorization' | 'secrets'
    readonly value: Secret | undefined
  },
): Secret {
  const isDeclared = tool.requirements?.[asked.kind]?.some(({ id }) => id === asked.id) ?? false
  if (isDeclared && asked.value !== undefined) return asked.value
  throw undeclared(tool, asked)
}

function undeclared(tool: Tool, asked: { readonly id: string; readonly kind: string }): ToolError {
  return fault('tool_failed', 'The tool asked for a credential it did not declare.', {
    developerMessage: `${tool.id} must list '${asked.id}' in requirements.${asked.kind}.`,
  })
}

/** The log a tool gets: the credentials of its call never appear in it, whatever the tool writes (OWP-75). */
function cleanLogger(log: Logger, request: CallRequest): Logger {
  if (request.tokens.size === 0 && request.secrets.size === 0) return log
  const write =
    (level: keyof Logger): WriteLine =>
    (said: object | string, message?: string) => {
      if (typeof said === 'string') log[level](redactText(said, request))
      else
        log[level](
          redactLogged(said, request),
          message === undefined ? undefined : redactText(message, request),
        )
    }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}
