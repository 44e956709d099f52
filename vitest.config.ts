import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: { conditions: ['source', 'node', 'import', 'module', 'default'] },
  ssr: { resolve: { conditions: ['source', 'node', 'import', 'module', 'default'] } },
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'examples/**/*.test.ts'],
    execArgv: ['--conditions=source', '--disable-warning=ExperimentalWarning'],
    pool: 'forks',
    testTimeout: 15_000,
  },
})
