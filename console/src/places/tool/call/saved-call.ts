import { readStored, removeStored, store } from '../../../api/user-storage.ts'

/**
 * The id of a call whose answer was not shown yet. It is stored in this window, so that a reloaded page can look the call up.
 * The input is not stored, because it may be private.
 */
interface SavedCall {
  readonly callId: string
  readonly since: Date
}

/** The caller and the tool. The caller is part of the storage key, because another caller's id would name another call. */
export interface CallOwner {
  readonly who: string
  readonly tool: string
}

export function saveCall(owner: CallOwner, { callId, since }: SavedCall): void {
  store('window', storageKeyOf(owner), `${since.toISOString()} ${callId}`)
}

export function forgetCall(owner: CallOwner): void {
  removeStored('window', storageKeyOf(owner))
}

export function savedCall(owner: CallOwner): SavedCall | undefined {
  const [, at, callId] = /^(\S+) ([\w-]{1,64})$/.exec(readStored('window', storageKeyOf(owner)) ?? '') ?? []
  const since = new Date(at ?? '')
  return callId === undefined || Number.isNaN(since.getTime()) ? undefined : { callId, since }
}

function storageKeyOf({ who, tool }: CallOwner): string {
  return `call ${JSON.stringify([who, tool])}`
}
