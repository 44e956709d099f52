import { z } from 'zod'
import type { Finding } from './finding.ts'
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

/** The journal in the order of its commits, past the code that wrote it. */
export async function readSteps(rows: ReadRows): Promise<readonly StoredStep[]> {
  const groups = await rows('SELECT events FROM commit_groups ORDER BY at, id')
  return groups.flatMap((row) => JOURNAL.parse(JSON.parse(GROUP_ROW.parse(row).events)))
}

/** Rules 20 and 21: nothing runs without a grant of its own, and no grant serves twice. */
export function judgeApprovals(steps: readonly StoredStep[]): ApprovalVerdict {
  const granted = new Set<string>()
  const closed = new Set<string>()
  const used = new Map<string, string>()
  const begun = new Set<string>()
  const findings: Finding[] = []
  for (const { type, record = '', attempt = 0, approval = '', tool } of steps) {
    const name = `${record} attempt ${attempt}`
    if (type === 'approval.granted' || type === 'approval.overridden') granted.add(approval)
    if (type === 'approval.rejected' || type === 'approval.expired' || type === 'approval.cancelled')
      closed.add(approval)
    if (type === 'approval.used') {
      if (used.has(approval)) findings.push({ breach: 'approval used twice', key: approval, detail: name })
      if (!granted.has(approval) || closed.has(approval)) {
        findings.push({ breach: 'run without a grant', key: name, detail: `on ${approval}` })
      }
      used.set(approval, name)
    }
    if (type !== 'call.claimed' || tool !== TOOL) continue
    const isGranted = [...used.values()].includes(name)
    if (!isGranted) findings.push({ breach: 'run without a grant', key: name, detail: 'no grant was used' })
    if (begun.has(name)) findings.push({ breach: 'approval used twice', key: name, detail: 'it began twice' })
    begun.add(name)
  }
  const asked = steps.filter(({ type }) => type === 'call.parked').length
  return { asked, granted: granted.size, rejected: closed.size, used: used.size, findings }
}
