import { type CrashResult, findingsOf } from './crash-scenario.ts'
import type { Breach } from './finding.ts'

const SHOWN_FINDINGS = 10

/** Every promise has a line, so that a kept promise is shown as 0. */
const PROMISES = {
  'effect twice': 'duplicate effects (must be 0)',
  'outcome changed': 'changed outcomes (must be 0)',
  'outcome lost': 'lost outcomes (must be 0)',
  'not final': 'not final (must be 0)',
  'success without effect': 'successes without effect (must be 0)',
  'ambiguous without a kill': 'ambiguous without a kill (must be 0)',
  'ambiguous though repeatable': 'ambiguous though repeatable (must be 0)',
  'ambiguous in a session': 'ambiguous in a session (must be 0)',
  'unexpected reply': 'unexpected replies (must be 0)',
  'session not closed once': 'sessions not closed once (must be 0)',
  'event outside its session': 'events outside their session (must be 0)',
  'cut session not failed': 'cut sessions not failed (must be 0)',
  'call taken after close': 'calls taken after close (must be 0)',
  'wrong session state': 'wrong session states (must be 0)',
  'sequence broken': 'broken sequences (must be 0)',
  'call not returned once': 'calls not returned once (must be 0)',
  'run ends differently': 'runs that end differently (must be 0)',
  'poll and store differ': 'polls that differ from the store (must be 0)',
  'reader missed events': 'readers that missed events (must be 0)',
  'stream not ended': 'streams not ended (must be 0)',
  'approval used twice': 'approvals used twice (must be 0)',
  'run without a grant': 'runs without a grant (must be 0)',
  'workflow not finished': 'workflows not finished (must be 0)',
  'step not exactly once': 'steps not exactly once (must be 0)',
  'workflow ends differently': 'workflows that end differently (must be 0)',
  'tenants mixed': 'tenants mixed (must be 0)',
} as const satisfies Record<Breach, string>

/** A line of the summary. */
export type Line<Result> = readonly [label: string, read: (result: Result) => string | number]

/** One column per scenario; `more` are additional lines of a test. */
export function formatSummary<Result extends CrashResult>(
  results: readonly (readonly [name: string, result: Result])[],
  more: readonly Line<Result>[] = [],
) {
  const lines: readonly Line<Result>[] = [
    ...more,
    ['calls', ({ verdict }) => verdict.calls],
    ['requests sent', ({ verdict }) => verdict.sendings],
    ['acknowledged', ({ verdict }) => verdict.acknowledged],
    ['kills', ({ verdict }) => verdict.kills],
    ['effects', ({ verdict }) => verdict.effects],
    ['ambiguous', ({ verdict }) => verdict.ambiguous],
    ['lost in a session', ({ verdict }) => verdict.sessionLost],
    ['sessions', ({ sessions }) => sessions.sessions],
    ['sessions opened by request', ({ sessions }) => sessions.named],
    ['sessions completed', ({ sessions }) => sessions.completed],
    ['sessions cancelled', ({ sessions }) => sessions.cancelled],
    ['sessions failed', ({ sessions }) => sessions.failed],
    ['runs', ({ runs }) => runs.runs],
    ['run events', ({ runs }) => runs.events],
    ['readers', ({ runs }) => runs.readers],
    ['readers resumed', ({ runs }) => runs.resumes],
    ['approvals asked for', ({ approvals }) => approvals.asked],
    ['approvals granted', ({ approvals }) => approvals.granted],
    ['approvals refused', ({ approvals }) => approvals.rejected],
    ['approvals used', ({ approvals }) => approvals.used],
    ['workflows', ({ flows }) => flows.flows],
    ['steps settled', ({ flows }) => flows.settled],
    ...Object.entries(PROMISES).map(
      ([breach, label]): Line<Result> => [
        label,
        (result) => findingsOf(result).filter((finding) => finding.breach === breach).length,
      ],
    ),
    ['journal', ({ journal }) => (journal.ok ? 'ok' : 'BROKEN')],
  ]
  const table = [
    row(
      '',
      results.map(([name]) => name),
    ),
    ...lines.map(([label, read]) =>
      row(
        label,
        results.map(([, result]) => String(read(result))),
      ),
    ),
  ]
  const problems = results.flatMap(([name, result]) => describeProblems(name, result))
  return { text: [...table, ...problems].join('\n'), passed: problems.length === 0 }
}

function row(label: string, cells: readonly string[]): string {
  return label.padEnd(42) + cells.map((cell) => cell.padStart(14)).join('')
}

function describeProblems(name: string, result: CrashResult): string[] {
  const { journal } = result
  const findings = findingsOf(result).map(
    ({ breach, key, detail }) => `${name}: ${key}: ${breach}: ${detail}`,
  )
  const more = findings.length - SHOWN_FINDINGS
  return [
    ...findings.slice(0, SHOWN_FINDINGS),
    ...(more > 0 ? [`${name}: ${more} more findings`] : []),
    ...(journal.ok ? [] : [`${name}: journal: ${journal.text}`]),
  ]
}
