import { spawnSync } from 'node:child_process'
import type { Reporter, TestModule } from 'vitest/node'

/** The last lines of a run: what was not tried on this machine, and what it would take. */
export class UntriedReporter implements Reporter {
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
  }
}

function hasBubblewrap(): boolean {
  return spawnSync('bwrap', ['--ro-bind', '/', '/', '--unshare-all', '--', 'true']).status === 0
}
