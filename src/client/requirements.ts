import { defined, isJsonObject, type JsonValue } from '#kernel/base/json'
import type { RemoteTool, WireContext } from '#protocols/otc/codec-client'
import type { RemoteChallenge } from '#protocols/otc/codec-client-reply'
import { CallFailure, configFailure } from './failure.ts'
import { exchange, NoAnswer, untilAborted } from './http.ts'
import type { ClientSettings } from './options.ts'
import { pause } from './retries.ts'

/**
 * Resolves a tool's requirements (tokens, secrets and the user id) before a call, and polls challenges after it. `call.ts` uses it.
 * Invariant: the client's credentials are sent only to its own server, never to another origin that a challenge names.
 */

interface ContextNeeds {
  /** `undefined` if the tool is not listed; then only the values in the call's options are sent. */
  readonly tool: RemoteTool | undefined
  readonly toolId: string
  readonly userId: string | undefined
  readonly userInfo?: JsonValue | undefined
  readonly signal: AbortSignal | undefined
}

/** Resolves the requirements for which the client has values (OTC-50 to OTC-53). */
export async function resolveContext(
  needs: ContextNeeds,
  settings: ClientSettings,
): Promise<WireContext | undefined> {
  const { tool } = needs
  const userId = await resolveUserId(needs, settings)
  const authorization = tool === undefined ? [] : await resolveTokens(needs, tool, settings)
  const secrets = tool === undefined ? [] : await resolveSecrets(needs, tool, settings)
  const carriesCredentials = authorization.length > 0 || secrets.length > 0
  if (carriesCredentials && !settings.server.mayCarryCredentials) {
    const message = `Tokens and secrets are not sent to ${settings.server.origin} over plain http; use its https address.`
    throw configFailure(message, { toolId: needs.toolId })
  }
  const { userInfo } = needs
  if (!carriesCredentials && userId === undefined && userInfo === undefined) return undefined
  return { authorization, secrets, ...defined({ userId, userInfo }) }
}

async function resolveUserId(needs: ContextNeeds, settings: ClientSettings): Promise<string | undefined> {
  if (needs.userId !== undefined || !needs.tool?.requirements.userId) return needs.userId
  const userId = await ask('the user id', needs, () => settings.requirements.userId?.())
  if (userId === undefined) reportMissing(needs, settings, 'a user id', { userId: true })
  return userId
}

async function resolveTokens(needs: ContextNeeds, tool: RemoteTool, settings: ClientSettings) {
  const tokens: { readonly id: string; readonly token: string }[] = []
  for (const requirement of tool.requirements.authorization) {
    const { id } = requirement
    const resolve = () => settings.requirements.authorization?.(id, requirement, tool)
    const token = await ask(`the authorization \`${id}\``, needs, resolve)
    if (token === undefined) reportMissing(needs, settings, `a token for \`${id}\``, { authorization: [] })
    else tokens.push({ id, token })
  }
  return tokens
}

async function resolveSecrets(needs: ContextNeeds, tool: RemoteTool, settings: ClientSettings) {
  const secrets: { readonly id: string; readonly value: string }[] = []
  for (const { id } of tool.requirements.secrets) {
    const resolve = () => settings.requirements.secrets?.(id, tool)
    const value = await ask(`the secret \`${id}\``, needs, resolve)
    if (value === undefined) reportMissing(needs, settings, `the secret \`${id}\``, { secrets: [id] })
    else secrets.push({ id, value })
  }
  return secrets
}

/** Calls a resolver; an empty string counts as no value. Its error may contain secrets, so it is kept as the cause only. */
async function ask(
  what: string,
  needs: ContextNeeds,
  resolve: () => string | undefined | Promise<string | undefined>,
): Promise<string | undefined> {
  try {
    const answer = await untilAborted(needs.signal, async () => resolve())
    return typeof answer === 'string' && answer !== '' ? answer : undefined
  } catch (cause) {
    const { signal, toolId } = needs
    const problem = signal?.aborted ? 'The call was aborted while waiting for' : 'The resolver failed for'
    const kind = signal?.aborted ? 'transport' : 'requirements'
    throw new CallFailure(kind, `${problem} ${what}; nothing was sent.`, { toolId, cause })
  }
}

/** Throws if `missingRequirements` is `refuse`. By default the call is sent, because the server may have the value (OTC/T-32). */
function reportMissing(
  { toolId }: ContextNeeds,
  { missingRequirements }: ClientSettings,
  what: string,
  missing: NonNullable<CallFailure['missing']>,
): void {
  if (missingRequirements === 'send') return
  const message = `This tool needs ${what}, and the client has none. Nothing was sent.`
  throw new CallFailure('requirements', message, { toolId, missing })
}

const POLL_EVERY_MS = 2_000
const POLL_TIMEOUT_MS = 10_000

interface PollRules {
  readonly settings: ClientSettings
  readonly signal: AbortSignal | undefined
  /** Credentials for the client's own server; another origin never gets them. */
  readonly ownHeaders: () => Promise<Readonly<Record<string, string>>>
}

/** Polls every `check_url` until all are completed; false as soon as one fails or the time is up (OTC-78). */
export async function awaitChallenges(
  challenges: readonly RemoteChallenge[],
  rules: PollRules,
): Promise<boolean> {
  const { settings, signal } = rules
  const urls = challenges.flatMap(({ checkUrl }) => (mayPoll(checkUrl, settings) ? [checkUrl] : []))
  if (urls.length === 0 || urls.length < challenges.length) return false
  let open: readonly string[] = urls
  for (let waitedMs = 0; waitedMs < settings.challengeTimeoutMs; waitedMs += POLL_EVERY_MS) {
    await pause(POLL_EVERY_MS, settings, signal)
    const states = await Promise.all(open.map((url) => pollOnce(url, rules)))
    if (states.includes('failed')) return false
    open = open.filter((_, index) => states[index] !== 'completed')
    if (open.length === 0) return true
  }
  return false
}

/** True if the challenge is at the server's own origin, or at another origin over TLS. */
function mayPoll(checkUrl: string | undefined, { server }: ClientSettings): checkUrl is string {
  if (checkUrl === undefined) return false
  const { origin, protocol } = new URL(checkUrl)
  return origin === server.origin || protocol === 'https:'
}

/** Reads the state of one challenge. A missing or unreadable answer counts as pending. */
async function pollOnce(
  url: string,
  { settings, signal, ownHeaders }: PollRules,
): Promise<'pending' | 'completed' | 'failed'> {
  const sameOrigin = new URL(url).origin === settings.server.origin
  const headers = async () => (sameOrigin ? await ownHeaders() : {})
  const timeoutMs = Math.min(settings.timeoutMs, POLL_TIMEOUT_MS)
  try {
    const { status, body } = await exchange(
      { method: 'GET', url, headers },
      { ...settings, signal, timeoutMs },
    )
    if (status === 404 || status === 410) return 'failed'
    const state = status === 200 && isJsonObject(body) ? body.status : undefined
    return state === 'completed' || state === 'failed' ? state : 'pending'
  } catch (error) {
    if (error instanceof NoAnswer && error.reason !== 'aborted') return 'pending'
    throw error
  }
}
