import { z } from 'zod'
import type { ApprovalBreach, Finding } from './finding.ts'
import type { ReadRows } from './stored-rows.ts'

const TOOL = 'Effect.Approved@1.0.0'
const GROUP_ROW = z.object({ events: z.string() })
const JOURNAL = z.array(
  z.object({
    type: z.string(),
    record: z.string().optional(),
    attempt: z.int().optional(),
    approval: z.string().optional(),
    tool: z.string().optional(),
  }),
)
export type StoredStep = z.output<typeof JOURNAL>[number]

export interface ApprovalVerdict {
  readonly asked: number
  readonly granted: number
  readonly rejected: number
  readonly used: number
  readonly findings: readonly Finding[]
}

/** The journal in the order of its commits, read without the code that wrote it. */
export async function readSteps(rows: ReadRows): Promise<readonly StoredStep[]> {
  const groups = await rows('SELECT events FROM commit_groups ORDER BY at, id')
  return groups.flatMap((row) => JOURNAL.parse(JSON.parse(GROUP_ROW.parse(row).events)))
}

/**
 * Rules 20 and 21: nothing runs without its own grant, and no grant is used twice. The order of the steps is not
 * checked: the clocks of several processes may differ, so their journals cannot be merged in order.
 */
export function judgeApprovals(steps: readonly StoredStep[]): ApprovalVerdict {
  const approvalsOf = (...types: readonly string[]) =>
    new Set(steps.flatMap(({ type, approval }) => (types.includes(type) ? (approval ?? []) : [])))
  const granted = approvalsOf('approval.granted', 'approval.overridden')
  const closed = approvalsOf('approval.rejected', 'approval.expired', 'approval.cancelled')
  const uses = steps.filter(({ type }) => type === 'approval.used')
  const used = new Set(uses.map(attemptOf))
  const begun = steps.filter(({ type, tool }) => type === 'call.claimed' && tool === TOOL).map(attemptOf)
  return {
    asked: steps.filter(({ type }) => type === 'call.parked').length,
    granted: granted.size,
    rejected: closed.size,
    used: approvalsOf('approval.used').size,
    findings: [
      ...repeated(uses.map(({ approval }) => approval ?? '')).map((key) =>
        finding('approval used twice', key),
      ),
      ...repeated(begun).map((key) => finding('approval used twice', key, 'it began twice')),
      ...uses.flatMap((use) => {
        const approval = use.approval ?? ''
        if (granted.has(approval) && !closed.has(approval)) return []
        return [finding('run without a grant', attemptOf(use), `on ${approval}`)]
      }),
      ...begun
        .filter((key) => !used.has(key))
        .map((key) => finding('run without a grant', key, 'no grant was used')),
    ],
  }
}

function attemptOf({ record = '', attempt = 0 }: StoredStep): string {
  return `${record} attempt ${attempt}`
}

function repeated(names: readonly string[]): readonly string[] {
  const seen = new Set<string>()
  return names.filter((name) => seen.size === seen.add(name).size)
}

function finding(breach: ApprovalBreach, key: string, detail = 'it served twice'): Finding {
  return { breach, key, detail }
}
