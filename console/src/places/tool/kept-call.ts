/**
 * The id of a call whose answer nobody has seen yet, kept by this window until somebody has: a page that was loaded anew in between can
 * still say what became of it. Nothing of its input is kept, which may be anybody's business.
 */
interface KeptCall {
  readonly callId: string
  readonly since: Date
}

const PREFIX = 'collet-call '

export function keepCall(tool: string, { callId, since }: KeptCall): void {
  try {
    sessionStorage.setItem(PREFIX + tool, `${since.toISOString()} ${callId}`)
  } catch {
    // It is known until the page is left.
  }
}

export function forgetCall(tool: string): void {
  try {
    sessionStorage.removeItem(PREFIX + tool)
  } catch {
    // Nothing was kept.
  }
}

export function keptCall(tool: string): KeptCall | undefined {
  try {
    const [, at, callId] = /^(\S+) ([\w-]{1,64})$/.exec(sessionStorage.getItem(PREFIX + tool) ?? '') ?? []
    const since = new Date(at ?? '')
    return callId === undefined || Number.isNaN(since.getTime()) ? undefined : { callId, since }
  } catch {
    return undefined
  }
}
