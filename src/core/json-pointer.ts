/** One step further down a JSON Pointer (RFC 6901). */
export function childPointer(pointer: string, step: string | number): string {
  return `${pointer}/${typeof step === 'number' ? step : escapeStep(step)}`
}

/** The steps of a JSON Pointer; none for the empty one. */
export function pointerSteps(pointer: string): string[] {
  return pointer === '' ? [] : pointer.slice(1).split('/').map(unescapeStep)
}

function escapeStep(step: string): string {
  return step.includes('~') || step.includes('/') ? step.replaceAll('~', '~0').replaceAll('/', '~1') : step
}

function unescapeStep(step: string): string {
  return step.includes('~') ? step.replaceAll('~1', '/').replaceAll('~0', '~') : step
}
