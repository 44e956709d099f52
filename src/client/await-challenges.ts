import { isJsonObject } from '#core/json'
import type { RemoteChallenge } from '#protocols/otc/codec-client-reply'
import type { ClientSettings } from './client-options.ts'
import { exchange, NoAnswer } from './http-exchange.ts'
import { pause } from './send-with-retries.ts'

const POLL_EVERY_MS = 2_000
const POLL_TIMEOUT_MS = 10_000

export interface PollRules {
  readonly settings: ClientSettings
  readonly signal: AbortSignal | undefined
  /** Credentials for our own server; another origin never gets them. */
  readonly ownHeaders: () => Promise<Readonly<Record<string, string>>>
}

/** Polls every `check_url` until all are completed; false as soon as one failed or time is up (OTC-78). */
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
    open = open.filter((_, place) => states[place] !== 'completed')
    if (open.length === 0) return true
  }
  return false
}

/** A server may send us to its own origin, or to any other over TLS. */
function mayPoll(checkUrl: string | undefined, { server }: ClientSettings): checkUrl is string {
  if (checkUrl === undefined) return false
  const { origin, protocol } = new URL(checkUrl)
  return origin === server.origin || protocol === 'https:'
}

/** A poll that brings nothing readable is not the end: the next one may. */
async function pollOnce(
  url: string,
  { settings, signal, ownHeaders }: PollRules,
): Promise<'pending' | 'completed' | 'failed'> {
  const sameOrigin = new URL(url).origin === settings.server.origin
  const sending = {
    method: 'GET' as const,
    url,
    headers: async () => (sameOrigin ? await ownHeaders() : {}),
  }
  const timeoutMs = Math.min(settings.timeoutMs, POLL_TIMEOUT_MS)
  try {
    const { status, body } = await exchange(sending, { ...settings, signal, timeoutMs })
    if (status === 404 || status === 410) return 'failed'
    const state = status === 200 && isJsonObject(body) ? body.status : undefined
    return state === 'completed' || state === 'failed' ? state : 'pending'
  } catch (error) {
    if (error instanceof NoAnswer && error.reason !== 'aborted') return 'pending'
    throw error
  }
}
