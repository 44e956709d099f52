import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: { conditions: ['collet-source', 'node', 'import', 'module', 'default'] },
  ssr: { resolve: { conditions: ['collet-source', 'node', 'import', 'module', 'default'] } },
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'examples/**/*.test.ts'],
    execArgv: ['--conditions=collet-source', '--disable-warning=ExperimentalWarning'],
    pool: 'forks',
    testTimeout: 15_000,
  },
})
