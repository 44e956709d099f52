import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { SummaryReporter } from './test/summary-reporter.ts'

/**
 * `npm test` runs the projects named "quick": what is deterministic, needs no quiet machine and ends within minutes.
 * `npm run test:all` runs the other projects. `npx vitest run FILE` finds every file.
 */
const SLOW = [
  'test/{crash,deploy,e2e,embedding,faults,fuzz,replicas,soak}/**/*.test.ts',
  'test/docs/!(blocks|errors|limits|lists|policy).test.ts',
  'test/conformance/{differential,mcp-suite*}.test.ts',
  'test/sources/**/{pack,mcp-stdio,corpus}.test.ts',
  'test/store/{*-kill,budget-processes,key-rotation,postgres-*,store-copy,*model}.test.ts',
]
/** They measure the process they run in, so nothing runs beside them. */
const MEASURED = ['test/**/{*stall,*hostile*,*speed,pack-messages}.test.ts']
/** They keep no state outside themselves, so they share processes: loading the same modules for each file takes longer than the tests. */
const SHARED = [
  '{src,console/src}/**/*.test.ts',
  'test/{client,conformance,egress,oauth,server,sources,store}/**/*.test.ts',
]
const CONSOLE = ['test/console/*.test.ts']
/** Those of them that measure how quick a page is. */
const CONSOLE_MEASURED = ['test/console/{calls,tools,frame,start}.test.ts']
/** For `npm run test:long`: see vitest.long.config.ts. */
const LONG = ['**/node_modules/**', '**/*.long.test.ts']

const ALL = ['test/**/*.test.ts', 'examples/**/*.test.ts']

export default defineConfig({
  resolve: { conditions: ['collet-source', 'node', 'module', 'default'] },
  ssr: { resolve: { conditions: ['collet-source', 'node', 'module', 'default'] } },
  test: {
    reporters: ['default', new SummaryReporter()],
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
          name: 'quick, shared',
          include: SHARED,
          exclude: [...LONG, ...SLOW, ...MEASURED],
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: 'quick, alone',
          include: ALL,
          exclude: [...LONG, ...SHARED, ...SLOW, ...MEASURED, ...CONSOLE],
        },
      },
      {
        extends: true,
        // They start processes and databases, which on a busy machine takes its time.
        test: { name: 'slow', include: SLOW, exclude: [...LONG, ...MEASURED], testTimeout: 180_000 },
      },
      {
        extends: true,
        test: { name: 'measured', include: MEASURED, maxWorkers: 1, sequence: { groupOrder: 1 } },
      },
      {
        // A browser looks at the built package. After the rest: one of the others builds the package anew.
        extends: true,
        test: {
          name: 'console',
          include: CONSOLE,
          exclude: CONSOLE_MEASURED,
          globalSetup: ['test/console/built.ts'],
          maxWorkers: availableParallelism(),
          sequence: { groupOrder: 2 },
        },
      },
      {
        extends: true,
        test: {
          name: 'console, measured',
          include: CONSOLE_MEASURED,
          globalSetup: ['test/console/built.ts'],
          maxWorkers: 1,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
})
