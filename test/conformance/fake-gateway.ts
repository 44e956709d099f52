import { randomUUID } from 'node:crypto'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { z } from 'zod'
import type { CallReply, CallRequest } from '#core/call/call-request'
import type { CallView } from '#core/call/call-view'
import { canonicalJson } from '#core/canonical-json'
import { type Challenge, fault, type InputIssue, isRefusal, ToolError } from '#core/errors'
import type { Gateway } from '#core/gateway'
import type { CallError, Outcome } from '#core/outcome'
import { SILENT_LOGGER } from '#core/ports/logger'
import type { ChallengeRecord } from '#core/ports/store'
import type { Principal } from '#core/principal'
import { Registry } from '#core/registry'
import type { Tool, ToolContext } from '#core/tool'
import { parseToolId } from '#core/tool-id'
import type { FixtureTool } from './otc-fixtures.ts'

const ajv = new Ajv2020({ allErrors: true, strict: false })

/** Just enough of a prepared tool for a protocol's tests. */
export function fakeTool(definition: FixtureTool): Tool {
  const parts = parseToolId(definition.id)
  if (parts === undefined) throw new Error(`bad fixture id ${definition.id}`)
  let compiled: ValidateFunction | undefined
  return {
    id: definition.id,
    parts,
    name: definition.name ?? parts.base.replace('.', '_'),
    catalogId: `openwop:${parts.base}`,
    description: definition.description,
    source: 'node-pack',
    inputSchema: definition.input,
    outputSchema: definition.output,
    ...(definition.requirements === undefined ? {} : { requirements: definition.requirements }),
    policy: {
      safetyTier: 'write',
      replay: 'non-deterministic',
      approval: 'never',
      scopes: [],
      timeoutMs: 60_000,
      rerunWindowMs: 0,
      ...definition.policy,
    },
    definitionHash: definition.id,
    checkInput: (input) => {
      compiled ??= ajv.compile(definition.input)
      return compiled(input)
        ? []
        : (compiled.errors ?? []).map(({ instancePath, params, message = '' }): InputIssue => {
            const missing: unknown = params.missingProperty
            const parameter = typeof missing === 'string' ? missing : instancePath.split('/')[1]
            return { pointer: instancePath, message, ...(parameter === undefined ? {} : { parameter }) }
          })
    },
    parseInput: (input) => ({ ok: true, input }),
    checkOutput: () => [],
    run: (input, context) => definition.run(z.record(z.string(), z.json()).parse(input), context),
  }
}

interface Entry {
  readonly fingerprint: string
  readonly reply: Promise<CallReply>
  view: CallView
}

export interface FakeGatewayOptions {
  readonly tools: readonly Tool[]
  readonly ready?: boolean
  readonly toolkits?: ReadonlyMap<string, string>
}

/** A gateway without durability: the steps of a call in their order, for tests of protocols. */
export class FakeGateway implements Gateway {
  readonly toolkits: ReadonlyMap<string, string>
  readonly challenges = new Map<string, ChallengeRecord>()
  /** What protocols handed over, oldest first. */
  readonly requests: CallRequest[] = []
  readonly #registry: Registry
  readonly #ready: boolean
  readonly #calls = new Map<string, Entry>()

  constructor({ tools, ready = true, toolkits = new Map() }: FakeGatewayOptions) {
    this.#registry = new Registry(tools)
    this.#ready = ready
    this.toolkits = toolkits
  }

  isReady(): boolean {
    return this.#ready
  }

  catalogFor(principal: Principal) {
    return this.#registry.catalogFor(principal)
  }

  async call(principal: Principal, request: CallRequest): Promise<CallReply> {
    this.requests.push(request)
    const callId = request.key ?? randomUUID()
    try {
      if (!this.#ready) throw fault('not_ready', 'The server takes no calls right now.')
      return await this.#findOrRun(principal, request, callId)
    } catch (error) {
      return { callId, replayed: false, outcome: failure(error) }
    }
  }

  async #findOrRun(principal: Principal, request: CallRequest, callId: string): Promise<CallReply> {
    const address = `${principal.id} ${callId}`
    const fingerprint = canonicalJson([
      request.tool.base,
      request.tool.version,
      request.input ?? {},
      request.userId ?? null,
    ])
    const entry = this.#calls.get(address)
    if (entry !== undefined) {
      if (entry.fingerprint !== fingerprint) {
        throw fault('key_conflict', 'This call id was used for another request.')
      }
      const reply = await entry.reply
      return { ...reply, replayed: true }
    }
    const tool = this.#check(principal, request)
    const reply = run(tool, request, callId)
    const view: CallView = {
      callId,
      record: `record-of-${callId}`,
      tool: tool.id,
      state: 'running',
      attempt: 1,
      createdAtMs: 0,
      finishedAtMs: undefined,
      outcome: undefined,
      expired: false,
    }
    const started: Entry = { fingerprint, reply, view }
    this.#calls.set(address, started)
    const { outcome } = await reply
    if (!outcome.ok && outcome.error.canRetry) this.#calls.delete(address)
    started.view = { ...view, state: outcome.ok ? 'succeeded' : 'failed', finishedAtMs: 1_000, outcome }
    return reply
  }

  #check(principal: Principal, request: CallRequest): Tool {
    const tool = this.catalogFor(principal).resolve(request.tool)
    if (tool === undefined) throw fault('tool_not_found', `Tool '${request.tool.base}' was not found.`)
    const input = request.input === undefined ? {} : request.input
    if (typeof input !== 'object' || input === null || Array.isArray(input)) {
      throw fault('input_invalid', 'The input must be an object.', {
        issues: [{ pointer: '', message: 'must be an object' }],
      })
    }
    const issues = tool.checkInput(input)
    if (issues.length > 0) throw fault('input_invalid', 'Some input parameters are invalid.', { issues })
    this.#requirements(tool, principal, request)
    return tool
  }

  #requirements(tool: Tool, principal: Principal, request: CallRequest): void {
    const { authorization = [], secrets = [], userId } = tool.requirements ?? {}
    const challenges = authorization
      .filter(({ id }) => !request.tokens.has(id))
      .map(({ id, oauth2 }) => this.#challenge(tool, principal, id, oauth2?.scopes ?? []))
    const missingSecrets = secrets.filter(({ id }) => !request.secrets.has(id)).map(({ id }) => ({ id }))
    const isUserMissing = userId === true && request.userId === undefined
    if (challenges.length === 0 && missingSecrets.length === 0 && !isUserMissing) return
    throw fault('requirement_missing', 'The tool needs more than its input.', {
      missing: {
        ...(challenges.length === 0 ? {} : { authorization: challenges }),
        ...(missingSecrets.length === 0 ? {} : { secrets: missingSecrets }),
        ...(isUserMissing ? { userId: true } : {}),
      },
    })
  }

  #challenge(tool: Tool, principal: Principal, provider: string, scopes: readonly string[]): Challenge {
    const id = randomUUID()
    this.challenges.set(id, {
      id,
      tenant: principal.tenant,
      principal: principal.id,
      user: '',
      provider,
      scopes,
      tool: tool.id,
      atMs: 0,
      expiresAtMs: Number.MAX_SAFE_INTEGER,
      status: 'pending',
    })
    const url = `http://127.0.0.1:4100/challenges/${id}`
    return { id, url, checkUrl: `${url}/status` }
  }

  async readCall(principal: Principal, callId: string): Promise<CallView | undefined> {
    return this.#calls.get(`${principal.id} ${callId}`)?.view
  }

  cancelCall(principal: Principal, callId: string): Promise<CallView | undefined> {
    return this.readCall(principal, callId)
  }

  async findChallenge(id: string): Promise<ChallengeRecord | undefined> {
    return this.challenges.get(id)
  }
}

async function run(tool: Tool, request: CallRequest, callId: string): Promise<CallReply> {
  const controller = new AbortController()
  const timeout = new Promise<never>((_resolve, reject) => {
    const timer = setTimeout(() => {
      reject(fault('tool_timeout', 'The tool took too long.'))
      controller.abort()
    }, tool.policy.timeoutMs)
    timer.unref()
  })
  const context: ToolContext = {
    callId,
    traceId: request.traceId ?? '',
    signal: controller.signal,
    principal: { id: 'anonymous', tenant: 'default', scopes: [] },
    userId: request.userId,
    token: (id) => known(request.tokens.get(id)),
    secret: (id) => known(request.secrets.get(id)),
    fetch,
    log: SILENT_LOGGER,
    progress() {},
  }
  try {
    const work = (async () => tool.run(request.input ?? {}, context))()
    const value = await Promise.race([work, timeout])
    return {
      callId,
      replayed: false,
      outcome: { ok: true, valueJson: JSON.stringify(value ?? null), durationMs: 1.5 },
    }
  } catch (error) {
    return { callId, replayed: false, outcome: failure(error) }
  }
}

function known<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('not supplied')
  return value
}

function failure(error: unknown): Outcome {
  const shown = error instanceof ToolError ? error : fault('tool_failed', 'The tool failed unexpectedly.')
  const callError: CallError = {
    code: shown.code,
    message: shown.message,
    canRetry: shown.canRetry,
    ...(shown.developerMessage === undefined ? {} : { developerMessage: shown.developerMessage }),
    ...(shown.retryAfterMs === undefined ? {} : { retryAfterMs: shown.retryAfterMs }),
    ...(shown.additionalPromptContent === undefined
      ? {}
      : { additionalPromptContent: shown.additionalPromptContent }),
    details: shown.details,
  }
  return { ok: false, error: callError, durationMs: isRefusal(shown.code) ? 0 : 1.5 }
}
