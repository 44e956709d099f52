import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { UntriedReporter } from './test/untried-reporter.ts'

/** They measure the process they run in, so nothing runs beside them. */
const MEASURED = 'test/**/{*stall,*hostile*,*speed,pack-messages}.test.ts'
/** They keep no state outside themselves. */
const PARTS = 'client,conformance,egress,oauth,server,sources,store'
const TOGETHER = `test/{${PARTS}}/**/!(differential|pack-messages|*stall|*hostile*|*speed|*.long).test.ts`
/** A browser looks at the built package. After the rest: one of the others builds the package anew. */
const CONSOLE = 'test/console/*.test.ts'
/** Those of them that measure how quick a page is. */
const CONSOLE_MEASURED = 'test/console/{calls,catalog,frame,start}.test.ts'

export default defineConfig({
  resolve: { conditions: ['collet-source', 'node', 'module', 'default'] },
  ssr: { resolve: { conditions: ['collet-source', 'node', 'module', 'default'] } },
  test: {
    reporters: ['default', new UntriedReporter()],
    execArgv: ['--conditions=collet-source', '--disable-warning=ExperimentalWarning'],
    pool: 'forks',
    // One more than there are cores: many tests wait for a process they started.
    maxWorkers: availableParallelism() + 1,
    setupFiles: ['test/seed.ts'],
    globalSetup: ['test/store/databases-setup.ts'],
    // For what hangs; a busy machine is no failure.
    testTimeout: 60_000,
    hookTimeout: 180_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'alone',
          include: ['test/**/*.test.ts', 'examples/**/*.test.ts'],
          // For `npm run test:long`: see vitest.long.config.ts.
          exclude: ['**/node_modules/**', '**/*.long.test.ts', TOGETHER, MEASURED, CONSOLE],
        },
      },
      {
        // They share a process: to load the same modules for each file would take longer than the tests.
        extends: true,
        test: { name: 'together', include: ['{src,console/src}/**/*.test.ts', TOGETHER], isolate: false },
      },
      {
        extends: true,
        test: { name: 'measured', include: [MEASURED], maxWorkers: 1, sequence: { groupOrder: 1 } },
      },
      {
        extends: true,
        test: {
          name: 'console',
          include: [CONSOLE],
          exclude: [CONSOLE_MEASURED],
          globalSetup: ['test/console/built.ts'],
          maxWorkers: availableParallelism(),
          sequence: { groupOrder: 2 },
        },
      },
      {
        extends: true,
        test: {
          name: 'console, measured',
          include: [CONSOLE_MEASURED],
          globalSetup: ['test/console/built.ts'],
          maxWorkers: 1,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
})
