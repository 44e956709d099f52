import { defineConfig } from 'vitest/config'
import { UntriedReporter } from './test/untried-reporter.ts'

export default defineConfig({
  resolve: { conditions: ['collet-source', 'node', 'module', 'default'] },
  ssr: { resolve: { conditions: ['collet-source', 'node', 'module', 'default'] } },
  test: {
    reporters: ['default', new UntriedReporter()],
    execArgv: ['--conditions=collet-source', '--disable-warning=ExperimentalWarning'],
    pool: 'forks',
    // Vitest leaves one core free, which is half of a small machine.
    maxWorkers: '100%',
    setupFiles: ['test/seed.ts'],
    // For what hangs; a busy machine is no failure.
    testTimeout: 60_000,
    hookTimeout: 180_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'parts',
          include: ['test/**/*.test.ts', 'examples/**/*.test.ts'],
          // For `npm run test:long`: see vitest.long.config.ts.
          exclude: ['**/node_modules/**', '**/*.long.test.ts'],
        },
      },
      {
        // Tests beside their modules keep no state outside themselves, so they share a process: loading the same modules for
        // each file would take longer than the tests.
        extends: true,
        test: { name: 'modules', include: ['src/**/*.test.ts'], isolate: false },
      },
    ],
  },
})
