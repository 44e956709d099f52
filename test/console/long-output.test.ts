import { describe, expect, it } from 'vitest'
import { useConsole } from './harness.ts'
import { tasksDuring } from './page-tasks.ts'
import { runButton } from './tool-fixture.ts'

const CONFIG = `
export default {
  authoring: { describeParameters: false },
  calls: { maxResultBytes: 10 * 1024 * 1024 },
  tools: [
    {
      [Symbol.for('collet.tool')]: true,
      id: 'Big.Rows@1.0.0',
      description: 'Returns many rows, or one long text.',
      input: { type: 'object', properties: { rows: { type: 'integer' }, text: { type: 'integer' } } },
      output: {},
      policy: { safetyTier: 'read', egress: 'none' },
      run: ({ rows = 0, text = 0 }) => ({
        rows: Array.from({ length: rows }, (_, id) => ({ id, name: 'Row number ' + id, tags: ['a', 'b'], isLast: id === rows - 1 })),
        text: 'x'.repeat(text),
        end: 'the last line',
      }),
    },
  ],
}
`
/** On a busy machine; drawing every token of 1 MiB kept the page busy for more than half a minute. */
const MAX_TASK_MS = 1_500

describe('a long output', () => {
  const collet = useConsole({ config: CONFIG })

  it.each([
    ['1 MiB of rows', { rows: 13_000 }, 1_000_000],
    ['6 MB of rows', { rows: 75_000 }, 6_000_000],
    ['one text of 6 MB', { text: 6_000_000 }, 6_000_000],
  ])(
    'of %s is shown whole without keeping the page busy, and can be downloaded',
    async (name, input, leastBytes) => {
      const page = await collet.page({ path: '/tools/Big.Rows', as: 'operator' })
      await page.getByRole('textbox', { name: 'Input as JSON' }).fill(JSON.stringify(input))
      const ran = await tasksDuring(page, async () => {
        await runButton(page).click()
        await page.getByRole('button', { name: 'Show all' }).waitFor()
      })
      const output = page.getByRole('region', { name: 'Output' })
      const whole = await tasksDuring(page, async () => {
        await page.getByRole('button', { name: 'Show all' }).click()
        await output.locator('.rows').waitFor()
      })
      const scrolled = await tasksDuring(page, async () => {
        await output.evaluate((box) => box.scrollTo(0, box.scrollHeight))
        await output.getByText('the last line').waitFor()
      })
      const longest = [ran, whole, scrolled].map(([task = 0]) => Math.round(task))
      process.stdout.write(
        `${name}: longest task when run, shown whole, scrolled: ${longest.join(', ')} ms\n`,
      )
      expect(Math.max(...longest)).toBeLessThan(MAX_TASK_MS)
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: 'Download', exact: true }).click(),
      ])
      expect(download.suggestedFilename()).toBe('output.json')
      const chunks: Buffer[] = []
      for await (const chunk of await download.createReadStream()) chunks.push(chunk)
      const saved = Buffer.concat(chunks)
      expect(saved.length).toBeGreaterThan(leastBytes)
      expect(JSON.parse(saved.toString())).toMatchObject({ end: 'the last line' })
    },
  )
})
