import type { RJSFSchema } from '@rjsf/utils'

/*
 * The ids of form fields and their errors. Used by `form-templates.tsx` and `form-widgets.tsx`. The id of a field is its path in
 * the input.
 */

/** Context of all parts of the form. */
interface FormFacts {
  readonly errors: ReadonlyMap<string, string>
}

export function errorOf(id: string, facts: FormFacts): string | undefined {
  return facts.errors.get(id.replace(/^in\/?/, ''))
}

export function hintId(id: string): string {
  return `${id}-hint`
}

export function errorId(id: string): string {
  return `${id}-error`
}

/** Joins a control with the texts below it. */
export function describedBy(
  id: string,
  schema: RJSFSchema,
  facts: FormFacts,
): { 'aria-describedby'?: string; 'aria-invalid'?: boolean } {
  const hasError = errorOf(id, facts) !== undefined
  const ids = [...(schema.description === undefined ? [] : [hintId(id)]), ...(hasError ? [errorId(id)] : [])]
  return {
    ...(ids.length === 0 ? {} : { 'aria-describedby': ids.join(' ') }),
    ...(hasError ? { 'aria-invalid': true } : {}),
  }
}
