import { expect, it } from 'vitest'
import { commandLine } from './child-group.ts'

const NODE = 'C:\\Program Files\\nodejs\\node.exe'
const SCRIPT = 'C:\\Program Files\\nodejs\\node_modules\\npm\\bin\\npx-cli.js'
const windows = { platform: 'win32', execPath: NODE }
const hasNpm = (file: string): boolean => file === SCRIPT

it('on Windows npx is started as a script of Node, and no shell interprets its arguments', () => {
  for (const name of ['npx', 'npx.cmd', 'NPX', 'C:\\Program Files\\nodejs\\npx.cmd'])
    expect(commandLine([name, '-y', 'a & b'], windows, hasNpm)).toEqual([NODE, SCRIPT, '-y', 'a & b'])
  expect(commandLine(['npx', '-y'], windows, () => false)).toEqual(['npx', '-y'])
  expect(commandLine(['D:\\own\\npx'], windows, hasNpm)).toEqual(['D:\\own\\npx'])
  expect(commandLine(['uvx', 'npx'], windows, hasNpm)).toEqual(['uvx', 'npx'])
})

it('on other systems every program is started directly', () => {
  expect(commandLine(['npx', '-y'], { platform: 'linux', execPath: '/node' }, () => true)).toEqual([
    'npx',
    '-y',
  ])
})
