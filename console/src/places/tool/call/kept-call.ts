import { forget, keep, kept } from '../../../api/kept.ts'

/**
 * The id of a call whose answer nobody has seen yet, kept by this window until somebody has: a page that was loaded anew in between can
 * still say what became of it. Nothing of its input is kept, which may be anybody's business.
 */
interface KeptCall {
  readonly callId: string
  readonly since: Date
}

/** Whose it is: the server tells nobody else of it, and an id means another call under another name. */
export interface Keeper {
  readonly who: string
  readonly tool: string
}

export function keepCall(keeper: Keeper, { callId, since }: KeptCall): void {
  keep('window', placeOf(keeper), `${since.toISOString()} ${callId}`)
}

export function forgetCall(keeper: Keeper): void {
  forget('window', placeOf(keeper))
}

export function keptCall(keeper: Keeper): KeptCall | undefined {
  const [, at, callId] = /^(\S+) ([\w-]{1,64})$/.exec(kept('window', placeOf(keeper)) ?? '') ?? []
  const since = new Date(at ?? '')
  return callId === undefined || Number.isNaN(since.getTime()) ? undefined : { callId, since }
}

function placeOf({ who, tool }: Keeper): string {
  return `call ${JSON.stringify([who, tool])}`
}
