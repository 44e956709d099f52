import { describe, expect, it } from 'vitest'
import { loadCommands } from '#cli/run'
import { FakeIo } from './fake-io.ts'

const COMMANDS = await loadCommands()

describe('collet', () => {
  it('lists every command', async () => {
    const io = new FakeIo()
    expect(await io.run('--help')).toBe(0)
    for (const { name, summary } of COMMANDS) {
      expect(io.stdout).toContain(name)
      expect(io.stdout).toContain(summary)
    }
  })

  it('prints the help and fails if there are no arguments', async () => {
    const io = new FakeIo()
    expect(await io.run()).toBe(2)
    expect(io.stdout).toContain('Usage: collet COMMAND')
  })

  const own = COMMANDS.filter(({ rawArgs }) => rawArgs === undefined)
  it.each(own.map(({ name }) => name))('explains %s with an example', async (name) => {
    const io = new FakeIo()
    expect(await io.run(...name.split(' '), '--help')).toBe(0)
    expect(io.stdout).toContain(`Usage: collet ${name}`)
    expect(io.stdout).toMatch(/Examples:\n {2}\S/)
    const again = new FakeIo()
    expect(await again.run('help', ...name.split(' '))).toBe(0)
    expect(again.stdout).toBe(io.stdout)
  })

  it.each([
    [['srve'], 'Unknown command "srve". Did you mean "serve"?'],
    [['calls', 'setle', 'x'], 'Unknown command "calls setle". Did you mean "calls settle"?'],
    [
      ['keys', 'make'],
      '"collet keys make" is not a command. Commands: keys create, keys rotate, keys list, keys revoke, keys generate.',
    ],
    [
      ['keys'],
      '"collet keys" is not a command. Commands: keys create, keys rotate, keys list, keys revoke, keys generate.',
    ],
    [['--json', 'tools'], 'The command comes first'],
    [['serve', '--prot', '1'], 'Unknown option --prot. Did you mean "--port"?'],
    [['serve', '--port', 'x'], '--port expects a whole number'],
    [['call'], 'collet call needs TOOL'],
  ])('refuses %j with advice, exit code 2', async (argv, message) => {
    const io = new FakeIo()
    expect(await io.run(...argv)).toBe(2)
    expect(io.stderr).toContain(message)
    expect(io.stderr).toMatch(/See: collet .*--help/)
    expect(io.stdout).toBe('')
  })

  it('never prints escape sequences of its arguments', async () => {
    const io = new FakeIo()
    await io.run('\u001b[2Jserve')
    expect(io.stderr).not.toContain('\u001b')
  })

  it('names the folder that it searched for a config', async () => {
    const io = new FakeIo()
    expect(await io.run('tools')).toBe(2)
    expect(io.stderr).toContain('There is no config in /nowhere.')
  })

  it.each([
    ['approvals', '--help'],
    ['approvals', '-h'],
    ['help', 'approvals'],
  ])('lists the commands of a family: collet %s %s', async (...argv) => {
    const io = new FakeIo()
    expect(await io.run(...argv)).toBe(0)
    expect(io.stdout).toMatch(/approvals list .*approvals reject/s)
    expect(io.stdout).not.toContain('keys create')
  })

  it('shows in the help which options are required', async () => {
    const io = new FakeIo()
    await io.run('calls', 'settle', '--help')
    expect(io.stdout).toContain('collet calls settle RECORD --as ENDING [--value JSON] --why TEXT [')
    expect(io.stdout).toMatch(/--as ENDING +Required\. /)
  })

  it('prints the version', async () => {
    const io = new FakeIo()
    expect(await io.run('--version')).toBe(0)
    expect(io.stdout).toMatch(/^collet \d+\.\d+\.\d+ \(Node \d+/)
  })

  it('OTC-103: generates keys of 32 random bytes', async () => {
    const io = new FakeIo()
    await io.run('keys', 'generate')
    await io.run('keys', 'generate')
    const [first = '', second = ''] = io.stdout.trim().split('\n')
    expect(Buffer.from(first, 'base64')).toHaveLength(32)
    expect(first).not.toBe(second)
  })

  it('uses colours only on a terminal, and not with NO_COLOR', async () => {
    const plain = new FakeIo()
    await plain.run('srve')
    expect(plain.stderr).not.toContain('\u001b[')
    let written = ''
    const terminal = {
      isTTY: true,
      write: (text: string) => {
        written += text
      },
    }
    await new FakeIo({}, { stderr: terminal }).run('srve')
    expect(written).toContain('\u001b[31m')
  })
})
