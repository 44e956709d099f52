import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
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
 * What a caller should know before it calls: how dangerous the tool is and what a call will have to wait for. Said once
 * here, and rendered by every protocol in its own words.
 */
export interface ToolFacts {
  /** The tool's third spelling, beside id and name. */
  readonly catalogId: string
  readonly source: SourceKind
  readonly safetyTier: SafetyTier
  /** Whether a person has to approve first. */
  readonly approval: Approval
  readonly replay: ReplayPolicy
  readonly egress?: Egress
  /** What a caller must hold; a caller who sees the tool holds it. */
  readonly scopes: readonly string[]
  /** Whether it, or a step of it, uses a token or a secret. */
  readonly credential: boolean
  readonly costHint?: Hint
  readonly latencyHint?: Hint
}

const KNOWN = new WeakMap<Tool, ToolFacts>()

/** Worked out once a tool: every protocol and every principal's list asks for the same. */
export function factsOf(tool: Tool): ToolFacts {
  const known = KNOWN.get(tool)
  if (known !== undefined) return known
  const { catalogId, source, policy } = tool
  const { safetyTier, replay, egress, scopes, costHint, latencyHint } = policy
  const facts: ToolFacts = Object.freeze({
    catalogId,
    source,
    safetyTier,
    approval: effectiveApproval(tool),
    replay,
    ...(egress === undefined ? {} : { egress }),
    scopes,
    credential: needsCredential(tool),
    ...(costHint === undefined ? {} : { costHint }),
    ...(latencyHint === undefined ? {} : { latencyHint }),
  })
  KNOWN.set(tool, facts)
  return facts
}

/** What a call of a tool has to bring, or find in the vault: ids and scopes, and nothing else an author wrote (OWP-24). */
interface ToolNeeds {
  readonly authorization: readonly { readonly id: string; readonly scopes: readonly string[] }[]
  readonly secrets: readonly string[]
  /** `true`: a proven one (OTC/T-27); `claimed`: the caller's word is enough. */
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
 * The facts that are news: the tier always, the rest where it is not the usual (a tool of the host's own code that runs at
 * once, needs nothing and is not to be repeated). Lists hold thousands of these.
 */
export function newsOf(tool: Tool): Pick<ToolFacts, 'catalogId' | 'safetyTier'> & Partial<ToolFacts> {
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

/** The same with id and needs, for protocols that list a tool under its name alone. */
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
    ...newsOf(tool),
    ...(Object.keys(requirements).length === 0 ? {} : { requirements }),
  }
}

/**
 * Facts as `newsOf` wrote them, from another server. `undefined` where a word is not known here: half-understood danger
 * would look like none.
 */
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
  return {
    ...{ catalogId, source, safetyTier, approval, replay, scopes, credential: credential === true },
    ...(egress === undefined ? {} : { egress }),
    ...(costHint === undefined ? {} : { costHint }),
    ...(latencyHint === undefined ? {} : { latencyHint }),
  }
}

/** Needs as `writeFacts` wrote them; what cannot be read is passed over. */
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

function choice<Choice extends string>(
  choices: readonly Choice[],
  value: JsonValue | undefined,
): Choice | undefined {
  return choices.find((one) => one === value)
}

function isTexts(value: JsonValue | undefined): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}
