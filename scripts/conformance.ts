/**
 * `npm run conformance` runs the official MCP suite directly and through Collet, and writes docs/mcp-conformance.md.
 * It fails if a scenario that a reference server passes directly fails through Collet or with Collet's own tools.
 */

import { replacePart } from '../test/interop/page.ts'
import {
  explain,
  gapsIn,
  renderFailures,
  renderScores,
  staleExplanations,
  takeScores,
} from '../test/interop/scoreboard.ts'
import { suiteVersion } from '../test/interop/suite-run.ts'

const say = (line: string): void => void process.stdout.write(`${line}\n`)
const scores = await takeScores(say)
const gaps = gapsIn(scores)
const open = gaps.filter((gap) => explain(gap) === undefined)
const name = ({ revision, way, scenario }: (typeof gaps)[number]) => `\`${scenario}\` (${revision}, ${way})`
replacePart('suite', [
  `Suite: \`@modelcontextprotocol/conformance\` ${suiteVersion()}. A cell counts the checks that passed (✓) and failed (✗).`,
  '',
  open.length === 0
    ? 'No gap is open: every scenario that a reference server passes directly passes in the other columns, except for those explained below.'
    : `**${open.length} open gaps**: ${open.map(name).join(', ')}.`,
  '',
  ...gaps.flatMap((gap) => {
    const why = explain(gap)
    return why === undefined ? [] : [`- ${name(gap)}: ${why}`]
  }),
  '',
  renderScores(scores),
  '### Failed checks',
  '',
  renderFailures(scores),
])
for (const gap of open) say(`gap: ${name(gap)}: ${gap.failures.join('; ')}`)
for (const stale of staleExplanations(scores)) say(`explained, but passes: ${stale}`)
say(`${open.length} open gaps; see docs/mcp-conformance.md`)
process.exitCode = open.length === 0 ? 0 : 1
