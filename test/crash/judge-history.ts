import {
  type CallHistory,
  type FinalCheck,
  isCutSince,
  isFinal,
  isParked,
  isRejected,
  type Kill,
  type PlannedCall,
  type Reply,
  type Sending,
} from './call-history.ts'
import { EFFECT_TOOLS, type Effect } from './effect-log.ts'
import type { Finding } from './finding.ts'
import { type DrivenSession, mayHaveEnded } from './session-history.ts'

/** Maximum number of runs of one call, whatever interrupted it. */
const MAX_ATTEMPTS = 3
/** Time of the final check: later than every kill. */
const FINAL_CHECK_MS = Number.MAX_SAFE_INTEGER

export interface Verdict {
  readonly calls: number
  /** Calls whose final outcome a caller had received before the last restart. */
  readonly acknowledged: number
  readonly sendings: number
  readonly kills: number
  readonly effects: number
  readonly ambiguous: number
  /** Calls that were cut inside a session. */
  readonly sessionLost: number
  readonly findings: readonly Finding[]
}

/** Everything known about one call. */
interface CallStory extends PlannedCall {
  readonly key: string
  readonly sendings: readonly Sending[]
  readonly effects: readonly Effect[]
  readonly finalChecks: readonly FinalCheck[]
}

/** Checks the observations of a run against "What we promise" in `docs/internals/durable-call.md`. */
export function judgeHistory(history: CallHistory): Verdict {
  const stories = collectStories(history)
  return {
    calls: stories.length,
    acknowledged: stories.filter((story) => finalReplies(story.sendings).length > 0).length,
    sendings: history.sendings.length,
    kills: history.kills.length,
    effects: history.effects.length,
    ambiguous: stories.filter(isAmbiguous).length,
    sessionLost: stories.filter(isSessionLost).length,
    findings: stories.flatMap((story) => [
      ...judgeReplies(story, history.kills),
      ...judgeEffects(story),
      ...judgeOutcomes(story),
      ...judgeState(story, history.kills),
      ...judgeAmbiguity(story, history),
    ]),
  }
}

function collectStories(history: CallHistory): CallStory[] {
  const sendings = Map.groupBy(history.sendings, (sending) => sending.key)
  const effects = Map.groupBy(history.effects, (effect) => effect.key)
  return [...history.calls].map(([key, call]) => ({
    ...call,
    key,
    sendings: sendings.get(key) ?? [],
    effects: effects.get(key) ?? [],
    finalChecks: history.finalChecks.get(key) ?? [],
  }))
}

/** Of a reply, in a finding. */
const MAX_BODY_LENGTH = 300

/** Only a call's own outcome, or a refusal that asks for a retry, may answer a valid request. */
function judgeReplies(story: CallStory, kills: readonly Kill[]): Finding[] {
  const last = story.finalChecks.map(({ reply }) => ({ reply, endedAtMs: FINAL_CHECK_MS }))
  return [...story.sendings, ...last].flatMap(({ reply, endedAtMs }) => {
    if (reply === undefined || reply.status === 200 || reply.asksForRetry) return []
    if (story.tool === 'Effect.Approved@1.0.0' && (isParked(reply) || isRejected(reply))) return []
    if (isSessionGone(reply) && hadToEnd(story, kills, endedAtMs)) return []
    const detail = `${reply.status} ${reply.errorCode} over ${reply.protocol}: ${reply.body.slice(0, MAX_BODY_LENGTH)}`
    return [{ breach: 'unexpected reply', key: story.key, detail }]
  })
}

function isSessionGone({ status, errorCode }: Reply): boolean {
  return status !== 200 && errorCode === 'session_not_found'
}

function hadToEnd({ session }: CallStory, kills: readonly Kill[], atMs: number): boolean {
  return session !== undefined && mayHaveEnded(session, kills, atMs)
}

/** One key has at most one effect, and no success is without an effect. */
function judgeEffects(story: CallStory): Finding[] {
  const { key, tool, effects } = story
  const nonces = new Set(effects.map((effect) => effect.nonce))
  const invented = replies(story).find(({ success, value }) => success && !nonces.has(value ?? ''))
  return [
    ...(effects.length > 1 && !EFFECT_TOOLS[tool].repeatable
      ? [{ breach: 'effect twice', key, detail: `${effects.length} effects of ${tool}` } as const]
      : []),
    ...(invented === undefined
      ? []
      : [{ breach: 'success without effect', key, detail: invented.body } as const]),
  ]
}

/** A final acknowledged outcome never changes or vanishes. */
function judgeOutcomes(story: CallStory): Finding[] {
  const { key } = story
  const acknowledged = finalReplies(story.sendings)
  const seenLast = finalReplies(story.finalChecks)
  const finals = [...acknowledged, ...seenLast]
  const [first] = finals
  const changed = finals.find(
    (reply) =>
      !isSameEnd(reply, first) ||
      reply.body !== finals.find(({ protocol }) => protocol === reply.protocol)?.body,
  )
  const lost = acknowledged.length > 0 && seenLast.length < story.finalChecks.length
  return [
    ...(changed === undefined || first === undefined
      ? []
      : [
          {
            breach: 'outcome changed',
            key,
            detail: `${first.body} became ${changed.body}`,
          } as const,
        ]),
    ...(lost ? [{ breach: 'outcome lost', key, detail: acknowledged[0]?.body ?? '' } as const] : []),
  ]
}

/** One key is one call over every protocol (rule 5). */
function isSameEnd(reply: Reply, first: Reply | undefined): boolean {
  return (
    reply.success === first?.success && reply.value === first.value && reply.errorCode === first.errorCode
  )
}

/** After the last restart every call is final, ambiguous, or released because its author allows a retry. */
function judgeState(story: CallStory, kills: readonly Kill[]): Finding[] {
  const { key, finalChecks } = story
  const isGone = hadToEnd(story, kills, FINAL_CHECK_MS)
  if (finalChecks.length === 0) return [{ breach: 'not final', key, detail: 'no final check was made' }]
  return finalChecks
    .filter((look) => !isSettled(look) && !(isGone && neverRan(look)))
    .map(({ state, reply }) => ({
      breach: 'not final',
      key,
      detail: `state ${state ?? 'unknown'}, status ${reply.status}, ${reply.body}`,
    }))
}

function isSettled({ state, reply }: FinalCheck): boolean {
  if (reply.success) return state === 'succeeded'
  if (reply.canRetry) return state === 'released' || state === 'failed'
  return isFinal(reply) && (state === 'failed' || state === 'ambiguous')
}

/** Refused because its session ended: it was never claimed, or its author declared that nothing took effect. */
function neverRan({ state, reply }: FinalCheck): boolean {
  return isSessionGone(reply) && (state === undefined || state === 'released')
}

/** Only a crash makes a call ambiguous, or lost in a session; for a repeatable call each attempt must have been cut (rules 8, 9, 30). */
function judgeAmbiguity(story: CallStory, history: CallHistory): Finding[] {
  if (!isAmbiguous(story) && !isSessionLost(story)) return []
  const { key, tool } = story
  const { repeatable, stateful } = EFFECT_TOOLS[tool]
  if (stateful !== isSessionLost(story)) {
    return [{ breach: 'ambiguous in a session', key, detail: story.finalChecks[0]?.reply.body ?? '' }]
  }
  const cuts = new Set(
    story.sendings.flatMap((sending) => cutBy(sending, history.kills, story.session) ?? []),
  )
  if (cuts.size === 0) {
    return [{ breach: 'ambiguous without a kill', key, detail: `${story.sendings.length} sendings` }]
  }
  if (repeatable && cuts.size < MAX_ATTEMPTS) {
    return [{ breach: 'ambiguous though repeatable', key, detail: `after ${cuts.size} kills` }]
  }
  return []
}

/**
 * The kill that interrupted a request. A run outlives a broken connection, so it ends with its server; a call of a session
 * runs on the server that holds the session, wherever it was sent.
 */
function cutBy(sending: Sending, kills: readonly Kill[], session?: DrivenSession): Kill | undefined {
  const next = kills.find(
    (kill) =>
      (kill.server === sending.server || kill.server === session?.server) &&
      isCutSince(kill, sending.sentAtMs),
  )
  if (next === undefined) return undefined
  return sending.reply === undefined || sending.endedAtMs >= next.atMs ? next : undefined
}

function isAmbiguous(story: CallStory): boolean {
  return story.finalChecks.some((look) => look.state === 'ambiguous')
}

function isSessionLost(story: CallStory): boolean {
  return story.finalChecks.some(({ reply }) => reply.errorCode === 'session_lost')
}

function replies(story: CallStory): Reply[] {
  return [...story.sendings, ...story.finalChecks].flatMap(({ reply }) => reply ?? [])
}

function finalReplies(looks: readonly { readonly reply: Reply | undefined }[]): Reply[] {
  return looks.flatMap(({ reply }) => (reply !== undefined && isFinal(reply) ? [reply] : []))
}
