import { readStored, removeStored, store } from '../../../api/user-storage.ts'

/**
 * The id of a call whose answer was not shown yet, stored in this window, so that a reloaded page can find out what became of it.
 * The input is not stored, because it may be private.
 */
interface KeptCall {
  readonly callId: string
  readonly since: Date
}

/** The caller: another caller cannot read it, and under another name the id means another call. */
export interface Keeper {
  readonly who: string
  readonly tool: string
}

export function keepCall(keeper: Keeper, { callId, since }: KeptCall): void {
  store('window', placeOf(keeper), `${since.toISOString()} ${callId}`)
}

export function forgetCall(keeper: Keeper): void {
  removeStored('window', placeOf(keeper))
}

export function keptCall(keeper: Keeper): KeptCall | undefined {
  const [, at, callId] = /^(\S+) ([\w-]{1,64})$/.exec(readStored('window', placeOf(keeper)) ?? '') ?? []
  const since = new Date(at ?? '')
  return callId === undefined || Number.isNaN(since.getTime()) ? undefined : { callId, since }
}

function placeOf({ who, tool }: Keeper): string {
  return `call ${JSON.stringify([who, tool])}`
}
