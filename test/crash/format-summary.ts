import type { CrashResult } from './crash-scenario.ts'
import type { Breach } from './judge-history.ts'

const SHOWN_FINDINGS = 10

/** Every promise has its line, so a kept one is seen as 0 and not as silence. */
const PROMISES = {
  'effect twice': 'duplicate effects (must be 0)',
  'outcome changed': 'changed outcomes (must be 0)',
  'outcome lost': 'lost outcomes (must be 0)',
  'not final': 'not final (must be 0)',
  'success without effect': 'successes without effect (must be 0)',
  'ambiguous without a kill': 'ambiguous without a kill (must be 0)',
  'ambiguous though repeatable': 'ambiguous though repeatable (must be 0)',
  'unexpected reply': 'unexpected replies (must be 0)',
} as const satisfies Record<Breach, string>

/** One column a scenario. */
export function formatSummary(results: readonly (readonly [name: string, result: CrashResult])[]) {
  const lines: [string, (result: CrashResult) => string | number][] = [
    ['calls', ({ verdict }) => verdict.calls],
    ['requests sent', ({ verdict }) => verdict.sendings],
    ['acknowledged', ({ verdict }) => verdict.acknowledged],
    ['kills', ({ verdict }) => verdict.kills],
    ['effects', ({ verdict }) => verdict.effects],
    ['ambiguous', ({ verdict }) => verdict.ambiguous],
    ...Object.entries(PROMISES).map(([breach, label]): [string, (result: CrashResult) => number] => [
      label,
      ({ verdict }) => verdict.findings.filter((finding) => finding.breach === breach).length,
    ]),
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

function describeProblems(name: string, { verdict, journal }: CrashResult): string[] {
  const findings = verdict.findings.map(({ breach, key, detail }) => `${name}: ${key}: ${breach}: ${detail}`)
  const more = findings.length - SHOWN_FINDINGS
  return [
    ...findings.slice(0, SHOWN_FINDINGS),
    ...(more > 0 ? [`${name}: ${more} more findings`] : []),
    ...(journal.ok ? [] : [`${name}: journal: ${journal.text}`]),
  ]
}
