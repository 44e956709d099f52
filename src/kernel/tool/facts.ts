import { defined, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import {
  type Approval,
  type Egress,
  effectiveApproval,
  type Hint,
  needsCredential,
  POLICY_FIELDS,
  type ReplayPolicy,
  type SafetyTier,
  SOURCE_KINDS,
  type SourceKind,
  type Tool,
} from './tool.ts'

/**
 * Facts that a caller should know before it calls a tool: how dangerous it is and what a call may wait for. Every protocol renders
 * these facts in its own form, and the client and the CLI read them back. If this server does not understand one of another
 * server's facts about a tool, it ignores all of them, because a tool whose danger is partly understood would look safe.
 */

export interface ToolFacts {
  /** The tool's third name, beside id and function name. */
  readonly catalogId: string
  readonly source: SourceKind
  readonly safetyTier: SafetyTier
  /** Whether a person has to approve a call first. */
  readonly approval: Approval
  readonly replay: ReplayPolicy
  readonly egress?: Egress
  /** Scopes that a caller needs; a caller that sees the tool has them. */
  readonly scopes: readonly string[]
  /** Whether the tool, or one of its steps, uses a token or a secret. */
  readonly credential: boolean
  readonly costHint?: Hint
  readonly latencyHint?: Hint
  /** What agents need to call the tool: the parameters that identify its effect, and how a model gets its result. */
  readonly identity?: readonly string[]
  readonly modelBytes?: number
  readonly project?: readonly string[]
  readonly modelFormat?: 'json' | 'toon'
}

const KNOWN = new WeakMap<Tool, ToolFacts>()

/** Computed once per tool, because every protocol and every principal's list uses it. */
export function factsOf(tool: Tool): ToolFacts {
  const known = KNOWN.get(tool)
  if (known !== undefined) return known
  const { catalogId, source, policy } = tool
  const { safetyTier, replay, egress, scopes, costHint, latencyHint } = policy
  const { identity, modelBytes, project, modelFormat } = policy
  const [approval, credential] = [effectiveApproval(tool), needsCredential(tool)]
  const danger = { catalogId, source, safetyTier, approval, replay, egress }
  const forModels = { identity, modelBytes, project, modelFormat }
  const facts: ToolFacts = Object.freeze(
    defined({ ...danger, scopes, credential, costHint, latencyHint, ...forModels }),
  )
  KNOWN.set(tool, facts)
  return facts
}

/** Credentials and user that a call must send or that must be in the vault: only ids and scopes of the definition (OWP-24). */
interface ToolNeeds {
  readonly authorization: readonly { readonly id: string; readonly scopes: readonly string[] }[]
  readonly secrets: readonly string[]
  /** `true`: the call needs a proven user id (OTC/T-27); `claimed`: an unproven user id is enough. */
  readonly userId: boolean | 'claimed'
}

export function needsOf({ requirements = {} }: Pick<Tool, 'requirements'>): ToolNeeds {
  const { authorization = [], secrets = [], userId = false } = requirements
  return {
    authorization: authorization.map(({ id, oauth2 }) => ({ id, scopes: oauth2?.scopes ?? [] })),
    secrets: secrets.map(({ id }) => id),
    userId,
  }
}

/**
 * The facts that differ from the usual values (the operator's own code that runs immediately, needs nothing and must not be
 * repeated), and always the tier. Usual values are left out, because lists contain thousands of tools.
 */
export function notableFacts(tool: Tool): Pick<ToolFacts, 'catalogId' | 'safetyTier'> & Partial<ToolFacts> {
  const { source, approval, replay, scopes, credential, ...always } = factsOf(tool)
  return {
    ...always,
    ...(replay === 'non-deterministic' ? {} : { replay }),
    ...(source === 'node-pack' ? {} : { source }),
    ...(approval === 'never' ? {} : { approval }),
    ...(scopes.length === 0 ? {} : { scopes }),
    ...(credential ? { credential } : {}),
  }
}

/** The notable facts with id and requirements, for protocols that list a tool under its name alone. */
export function writeFacts(tool: Tool): JsonObject {
  const { authorization, secrets, userId } = needsOf(tool)
  const requirements: JsonObject = {
    ...(authorization.length === 0
      ? {}
      : { authorization: authorization.map(({ id, scopes }) => ({ id, scopes: [...scopes] })) }),
    ...(secrets.length === 0 ? {} : { secrets: [...secrets] }),
    ...(userId === false ? {} : { userId }),
  }
  return {
    id: tool.id,
    ...notableFacts(tool),
    ...(Object.keys(requirements).length === 0 ? {} : { requirements }),
  }
}

/** Reads another server's facts, as `notableFacts` writes them; `undefined` if a value is unknown here. */
export function readFacts(written: Readonly<Record<string, JsonValue | undefined>>): ToolFacts | undefined {
  const { catalogId, scopes = [], credential = false } = written
  const safetyTier = choice(POLICY_FIELDS.safetyTier.choices, written.safetyTier)
  const replay = choice(POLICY_FIELDS.replay.choices, written.replay ?? 'non-deterministic')
  const approval = choice(POLICY_FIELDS.approval.choices, written.approval ?? 'never')
  const source = choice(SOURCE_KINDS, written.source ?? 'node-pack')
  const egress = choice(POLICY_FIELDS.egress.choices, written.egress)
  const costHint = choice(POLICY_FIELDS.costHint.choices, written.costHint)
  const latencyHint = choice(POLICY_FIELDS.latencyHint.choices, written.latencyHint)
  if (typeof catalogId !== 'string' || safetyTier === undefined || replay === undefined) return undefined
  if (approval === undefined || source === undefined || !isTexts(scopes)) return undefined
  const known = { catalogId, source, safetyTier, approval, replay, scopes, credential: credential === true }
  const forModels = {
    identity: isTexts(written.identity) ? written.identity : undefined,
    modelBytes: typeof written.modelBytes === 'number' ? written.modelBytes : undefined,
    project: isTexts(written.project) ? written.project : undefined,
    modelFormat: choice(POLICY_FIELDS.modelFormat.choices, written.modelFormat),
  }
  return { ...known, ...defined({ egress, costHint, latencyHint, ...forModels }) }
}

/** Reads requirements as `writeFacts` writes them; unreadable requirements are skipped. */
export function readNeeds(written: JsonValue | undefined): ToolNeeds {
  const { authorization, secrets, userId } = isJsonObject(written) ? written : {}
  const entries: readonly JsonValue[] = Array.isArray(authorization) ? authorization : []
  return {
    authorization: entries.flatMap((entry) => {
      if (!isJsonObject(entry) || typeof entry.id !== 'string') return []
      return [{ id: entry.id, scopes: isTexts(entry.scopes) ? entry.scopes : [] }]
    }),
    secrets: isTexts(secrets) ? secrets : [],
    userId: userId === 'claimed' ? userId : userId === true,
  }
}

function choice<Choice>(choices: readonly Choice[], value: JsonValue | undefined): Choice | undefined {
  return choices.find((one) => one === value)
}

function isTexts(value: JsonValue | undefined): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}
