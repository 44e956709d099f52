import type { ReactNode } from 'react'
import { useEcho } from '../../app/echo.tsx'
import { Page } from '../../app/page.tsx'
import { Empty } from '../../parts/states.tsx'
import './call.css'

export function CallPage(): ReactNode {
  useEcho('collet calls show')
  return (
    <Page title="Call">
      <Empty title="The call comes here" />
    </Page>
  )
}
