import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'

it('sets flags that this engine has: it prints an error for any other', () => {
  const program = "(await import('#cli/io')).optimizeSooner(); console.log('set')"
  const options = [
    '--conditions=collet-source',
    '--disable-warning=ExperimentalWarning',
    '--input-type=module',
  ]
  const { stdout, stderr } = spawnSync(process.execPath, [...options, '--eval', program], {
    encoding: 'utf8',
  })
  expect({ stdout, stderr }).toEqual({ stdout: 'set\n', stderr: '' })
})
