import type { ReactNode } from 'react'
import { useEcho } from '../../app/echo.tsx'
import { Page } from '../../app/page.tsx'
import { Empty } from '../../parts/states.tsx'
import './start.css'

export function StartPage(): ReactNode {
  useEcho('collet tools')
  return (
    <Page title="Start">
      <Empty title="The first steps come here" />
    </Page>
  )
}
