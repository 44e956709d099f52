import type { JsonObject } from '#core/json'

const LEGAL_NAME = /^[A-Za-z0-9_-]{1,64}$/

/** The name under which a function's value travels: the output schema's title, if it can be one (OTS-38). */
export function returnNameOf(outputSchema: JsonObject | null): string {
  const title = outputSchema?.title
  return typeof title === 'string' && LEGAL_NAME.test(title) ? title : 'result'
}
