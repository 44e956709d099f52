import { spawnSync } from 'node:child_process'
import type { Reporter, TestModule } from 'vitest/node'

const LEFT_OUT = `
"npm run test:all" runs what npm test leaves out: stories of the console in a browser, the packed package and a fresh clone,
documentation that is compiled and run, crashes and faults, several replicas on PostgreSQL, fuzzing, and what is measured.
`

/** The last lines of a run: what was left out, and what was not tried on this machine and why. */
export class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const skipped = modules.flatMap((module) => [...module.children.allTests('skipped')])
    // A filter by name skips nearly everything, on purpose.
    const isFiltered = process.argv.some((word) => word === '-t' || word.startsWith('--testNamePattern'))
    const lines = [
      ...(hasBubblewrap()
        ? []
        : ['the sandboxes of commands and packs: bubblewrap (bwrap) does not work here']),
      ...(isFiltered ? [] : skipped.map((test) => `${test.module.relativeModuleId}: ${test.fullName}`)),
    ]
    if (lines.length > 0)
      process.stdout.write(`\nNot tried here:\n${lines.map((line) => `  ${line}\n`).join('')}`)
    if (process.argv.includes('--project=quick*')) process.stdout.write(LEFT_OUT)
  }
}

function hasBubblewrap(): boolean {
  return spawnSync('bwrap', ['--ro-bind', '/', '/', '--unshare-all', '--', 'true']).status === 0
}
