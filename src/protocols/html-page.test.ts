import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { countdownHtml, html, PAGE_STYLE, pageReply, timeHtml } from './html-page.ts'

describe('html', () => {
  it('escapes texts, wherever they stand', () => {
    const text = `<script>"it's" & more`
    expect(html`<p title="${text}">${text}</p>`.text).toBe(
      '<p title="&lt;script&gt;&quot;it&#39;s&quot; &amp; more">&lt;script&gt;&quot;it&#39;s&quot; &amp; more</p>',
    )
    expect(html`${1} of ${2}`.text).toBe('1 of 2')
  })

  it('lets HTML stand as it is, one piece or several', () => {
    const items = ['a', '<b>'].map((item) => html`<li>${item}</li>`)
    expect(html`<ul>${items}</ul>${html`<hr>`}`.text).toBe('<ul><li>a</li><li>&lt;b&gt;</li></ul><hr>')
  })

  it('escapes the title of a page in both places', () => {
    const { body } = pageReply(200, { title: 'a < b', content: html`<p>c</p>` })
    expect(body).toContain('<title>a &lt; b</title>')
    expect(body).toContain('<h1>a &lt; b</h1>\n<p>c</p>\n</div>')
  })
})

describe('the script of pages', () => {
  it('is on those that tell a time, wherever it stands, and on no other', () => {
    const until = countdownHtml(Date.now())
    const parts = { title: 'a', content: html`<p>c</p>` }
    for (const page of [
      { title: 'a', content: timeHtml(0) },
      { ...parts, aside: until },
      { ...parts, foot: until },
    ])
      expect(pageReply(200, page).body).toContain('<script>')
    expect(pageReply(200, { ...parts, title: '<time datetime="x">' }).body).not.toContain('<script')
  })
})

describe('the look of pages', () => {
  it("is the console's: a token means the same in both", () => {
    const file = join(import.meta.dirname, '../../console/src/styles/tokens.css')
    const [root = ''] = readFileSync(file, 'utf8').split('}')
    const tokens = new Map(
      [...root.matchAll(/--([\w-]+):\s*([^;]+);/g)].map(([, name, value]) => [
        name,
        value?.replace(/\s+/g, ' '),
      ]),
    )
    const [used = ''] = PAGE_STYLE.split('}')
    const found = [...used.matchAll(/--([\w-]+):([^;]+)/g)]
    expect(found.length).toBeGreaterThan(15)
    for (const [, name = '', value] of found) expect([name, value]).toEqual([name, tokens.get(name)])
  })

  it('names no colour but those', () => {
    expect(PAGE_STYLE.slice(PAGE_STYLE.indexOf('}'))).not.toMatch(/#[0-9a-f]{3}/i)
  })
})
