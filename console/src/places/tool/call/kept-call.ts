import { readStored, removeStored, store } from '../../../api/user-storage.ts'

/**
 * The id of a call whose answer was not shown yet. It is stored in this window, so that a reloaded page can look the call up.
 * The input is not stored, because it may be private.
 */
interface KeptCall {
  readonly callId: string
  readonly since: Date
}

/** The caller and the tool. The caller is part of the storage key, because another caller's id would name another call. */
export interface Keeper {
  readonly who: string
  readonly tool: string
}

export function keepCall(keeper: Keeper, { callId, since }: KeptCall): void {
  store('window', storageKeyOf(keeper), `${since.toISOString()} ${callId}`)
}

export function forgetCall(keeper: Keeper): void {
  removeStored('window', storageKeyOf(keeper))
}

export function keptCall(keeper: Keeper): KeptCall | undefined {
  const [, at, callId] = /^(\S+) ([\w-]{1,64})$/.exec(readStored('window', storageKeyOf(keeper)) ?? '') ?? []
  const since = new Date(at ?? '')
  return callId === undefined || Number.isNaN(since.getTime()) ? undefined : { callId, since }
}

function storageKeyOf({ who, tool }: Keeper): string {
  return `call ${JSON.stringify([who, tool])}`
}
