import { openStage, type Stage, WAYS, type Way } from './stage.ts'
import {
  REVISIONS,
  runClientSuite,
  runServerSuite,
  type ScenarioResult,
  type SuiteResult,
  type SuiteRevision,
} from './suite-run.ts'

/*
 * The scoreboard: the results of the official suite in each revision and for each of `WAYS`, as tables, and the gaps between direct
 * and through Collet. `npm run conformance` writes it into docs/mcp-conformance.md.
 * Invariant: a gap is a scenario that the reference server passes directly and that fails through Collet or with its own tools.
 */

interface RevisionScores {
  readonly revision: SuiteRevision
  readonly byWay: ReadonlyMap<Way, SuiteResult>
  readonly client: SuiteResult
}

export type Scores = readonly RevisionScores[]

export interface Gap {
  readonly revision: SuiteRevision
  readonly way: Way
  readonly scenario: string
  readonly failures: readonly string[]
}

/** Only some ways, no extensions and no client scenarios, for a test; the reference is always taken. */
export async function takeSomeScores(
  stage: Stage,
  ways: readonly Way[],
  revision: SuiteRevision,
): Promise<Scores> {
  const byWay = new Map<Way, SuiteResult>()
  for (const way of ['direct' as const, ...ways])
    byWay.set(way, await runServerSuite(stage.urlOf(revision, way), revision, { hasExtensions: false }))
  return [{ revision, byWay, client: new Map() }]
}

export async function takeScores(onProgress: (line: string) => void): Promise<Scores> {
  const stage = await openStage()
  try {
    const scores: RevisionScores[] = []
    for (const revision of REVISIONS) {
      const byWay = new Map<Way, SuiteResult>()
      for (const way of WAYS) {
        const result = await runServerSuite(stage.urlOf(revision, way), revision)
        onProgress(`${revision}, ${way}: ${total(result)}`)
        byWay.set(way, result)
      }
      const client = await runClientSuite(revision)
      onProgress(`${revision}, client: ${total(client)}`)
      scores.push({ revision, byWay, client })
    }
    return scores
  } finally {
    await stage.close()
  }
}

export function gapsIn(scores: Scores): readonly Gap[] {
  return scores.flatMap(({ revision, byWay }) =>
    WAYS.filter((way) => way !== 'direct').flatMap((way) =>
      [...(byWay.get(way) ?? [])].flatMap(([scenario, { failed, failures }]) => {
        const direct = byWay.get('direct')?.get(scenario)
        return failed > 0 && direct?.failed === 0 ? [{ revision, way, scenario, failures }] : []
      }),
    ),
  )
}

function total(result: SuiteResult): string {
  const counted = [...result.values()]
  const sum = (member: 'passed' | 'failed') => counted.reduce((all, each) => all + each[member], 0)
  return `${sum('passed')} passed, ${sum('failed')} failed`
}

const HEADS: Readonly<Record<Way, (isNew: boolean) => string>> = {
  direct: (isNew) => `${isNew ? 'SDK v2' : 'SDK v1'} directly`,
  through: (isNew) => `Collet → ${isNew ? 'SDK v2' : 'SDK v1'}`,
  crossed: (isNew) => `Collet → ${isNew ? 'SDK v1 (old)' : 'SDK v2 (new)'}`,
  own: () => 'Collet’s own tools',
}

/** The tables of the page. */
export function renderScores(scores: Scores): string {
  return scores.flatMap((score) => [...serverTable(score), ...clientTable(score)]).join('\n')
}

function serverTable({ revision, byWay }: RevisionScores): readonly string[] {
  const isNew = revision === '2026-07-28'
  const scenarios = [...new Set(WAYS.flatMap((way) => [...(byWay.get(way)?.keys() ?? [])]))]
  return [
    `### Server scenarios, ${revision}`,
    '',
    `| scenario | ${WAYS.map((way) => HEADS[way](isNew)).join(' | ')} |`,
    `| --- |${' --- |'.repeat(WAYS.length)}`,
    `| **all** | ${WAYS.map((way) => `**${total(byWay.get(way) ?? new Map())}**`).join(' | ')} |`,
    ...scenarios.map(
      (name) => `| \`${name}\` | ${WAYS.map((way) => cell(byWay.get(way)?.get(name))).join(' | ')} |`,
    ),
    '',
  ]
}

function clientTable({ revision, client }: RevisionScores): readonly string[] {
  return [
    `### Client scenarios, ${revision}`,
    '',
    '| scenario | Collet as the client |',
    '| --- | --- |',
    `| **all** | **${total(client)}** |`,
    ...[...client].map(([name, result]) => `| \`${name}\` | ${cell(result)} |`),
    '',
  ]
}

function cell(result: ScenarioResult | undefined): string {
  if (result === undefined) return '–'
  return result.failed === 0 ? `${result.passed} ✓` : `${result.passed} ✓, ${result.failed} ✗`
}

/** Every failed check of the columns other than the reference, with the message of the suite. */
export function renderFailures(scores: Scores): string {
  const lines = scores.flatMap(({ revision, byWay, client }) => [
    ...WAYS.flatMap((way) => failuresOf(`${revision}, ${way}`, byWay.get(way))),
    ...failuresOf(`${revision}, client`, client),
  ])
  return lines.length === 0 ? 'None.' : lines.join('\n')
}

const MAX_MESSAGE = 200

function failuresOf(place: string, result: SuiteResult | undefined): readonly string[] {
  return [...(result ?? [])].flatMap(([scenario, { failed, failures }]) => {
    if (failed === 0) return []
    const shown = failures.map((text) =>
      text.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|').slice(0, MAX_MESSAGE),
    )
    return [`- ${place}, \`${scenario}\`: ${[...new Set(shown)].join('; ')}`]
  })
}
