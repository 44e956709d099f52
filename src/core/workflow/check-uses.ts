import { isDefinedTool } from '#core/define-tool'
import { describeValue } from '#core/describe-value'
import type { Report } from '#core/finding'
import { parseToolName } from '#core/tool-id'

/** References to the tools a workflow may call, each once. */
export function readUses(written: unknown, report: Report): readonly string[] {
  const fix = "Write the tools it may call: `uses: [sendMail, 'Mail.Send@1.0.0']`."
  if (!Array.isArray(written) || written.length === 0) {
    report('uses', `Is ${describeValue(written)}.`, fix)
    return []
  }
  const refs = written.map((used: unknown) => (isDefinedTool(used) ? used.id : used))
  const known = refs.filter(
    (ref): ref is string => typeof ref === 'string' && parseToolName(ref) !== undefined,
  )
  for (const ref of refs) {
    if (known.some((id) => id === ref)) continue
    report('uses', `Holds ${describeValue(ref)}.`, fix)
  }
  return Object.freeze([...new Set(known)])
}
