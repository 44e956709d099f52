import { describe, expect, it } from 'vitest'
import { html, pageReply } from './html-page.ts'

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
    expect(body).toContain('<h1>a &lt; b</h1>\n<p>c</p>\n</main></body>')
  })
})
