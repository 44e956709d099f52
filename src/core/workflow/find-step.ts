import { ToolError } from '#core/errors'
import type { Tool, WorkflowStep } from '#core/tool'
import { compareVersions, LATEST, parseToolId, parseToolName, plainVersion, type ToolId } from '#core/tool-id'

/** A tool that a workflow may call, with its names. */
export type FoundStep = WorkflowStep & ToolId

/** Only what `uses` lists is called, and exactly as it was when the workflow began (rule 31). */
export function findStep({ id, workflow }: Tool, used: unknown): FoundStep {
  const known = [...(workflow?.steps?.values() ?? [])].flatMap((step) => {
    const parts = parseToolId(step.id)
    return parts === undefined ? [] : [{ ...step, ...parts }]
  })
  const ref = typeof used === 'string' ? parseToolName(used) : undefined
  const versions = known
    .filter(({ names }) => ref !== undefined && names.includes(ref.base))
    .filter(({ version }) => ref?.version === LATEST || plainVersion(version) === ref?.version)
    .sort((left, right) => compareVersions(left.version, right.version))
  const found = versions.at(-1)
  if (found !== undefined) return found
  throw new ToolError(`${id} called a tool that it does not list.`, {
    developerMessage: `'${String(used)}' is not in its \`uses\`: ${known.map((step) => step.id).join(', ')}.`,
  })
}
