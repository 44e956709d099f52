/**
 * `npm run conformance` runs the official MCP suite directly and through Collet, and writes docs/mcp-conformance.md.
 * It fails if a scenario that a reference server passes directly fails through Collet or with Collet's own tools.
 */

import { replacePart } from '../test/interop/page.ts'
import { gapsIn, renderFailures, renderScores, takeScores } from '../test/interop/scoreboard.ts'
import { suiteVersion } from '../test/interop/suite-run.ts'

const say = (line: string): void => void process.stdout.write(`${line}\n`)
const scores = await takeScores(say)
const gaps = gapsIn(scores)
const name = ({ revision, way, scenario }: (typeof gaps)[number]) => `\`${scenario}\` (${revision}, ${way})`
replacePart('suite', [
  `Suite: \`@modelcontextprotocol/conformance\` ${suiteVersion()}. A cell counts the checks that passed (✓) and failed (✗).`,
  '',
  gaps.length === 0
    ? 'There is no gap: every scenario that a reference server passes directly passes in the other columns.'
    : `**${gaps.length} gaps**: ${gaps.map(name).join(', ')}.`,
  '',
  renderScores(scores),
  '### Failed checks',
  '',
  renderFailures(scores),
])
for (const gap of gaps) say(`gap: ${name(gap)}: ${gap.failures.join('; ')}`)
say(`${gaps.length} gaps; see docs/mcp-conformance.md`)
process.exitCode = gaps.length === 0 ? 0 : 1
