import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { FAILURE_CODES, REFUSAL_CODES } from '#kernel/base/errors'
import { OTC_ANSWERS } from '#protocols/otc/codec-response'

const page = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8')
const [refusals = '', failures = ''] = page.split('## After the tool started').map((part) => part)

function codesIn(part: string): string[] {
  return [...part.matchAll(/^\| `(\w+)` \|/gm)].map(([, code = '']) => code)
}

describe('docs/errors.md', () => {
  it('lists every code in the order of the source, on its own side', () => {
    expect(codesIn(refusals)).toEqual([...REFUSAL_CODES])
    expect(codesIn(failures)).toEqual([...FAILURE_CODES])
  })

  it('contains the HTTP status that OTC answers', () => {
    for (const code of REFUSAL_CODES) {
      const status = new RegExp(`^\\| \`${code}\` \\| (\\d+) \\|`, 'm').exec(refusals)?.[1]
      expect([code, Number(status)]).toEqual([code, OTC_ANSWERS[code].status])
    }
  })
})
