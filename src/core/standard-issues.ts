import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { InputIssue } from './errors.ts'
import { childPointer } from './json-pointer.ts'

/** A schema library's own issues, with its own words. */
export function standardIssues(issues: readonly StandardSchemaV1.Issue[]): readonly InputIssue[] {
  return issues.map(({ message, path }) => {
    const steps = (path ?? []).map((step) => String(typeof step === 'object' ? step.key : step))
    const pointer = steps.reduce(childPointer, '')
    const [parameter] = steps
    return parameter === undefined ? { pointer, message } : { parameter, pointer, message }
  })
}
