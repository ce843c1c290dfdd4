// What the report page uses of ECharts, and nothing else: one kind of series, one grid, the zoom, the canvas.
import { use, init, graphic } from 'echarts/core';
import { CustomChart } from 'echarts/charts';
import { GridComponent, DataZoomInsideComponent, DataZoomSliderComponent } from 'echarts/components';
import { CanvasRenderer } from 'echarts/renderers';
use([CustomChart, GridComponent, DataZoomInsideComponent, DataZoomSliderComponent, CanvasRenderer]);
export { init };
export const extendShape = graphic.extendShape;
export const registerShape = graphic.registerShape;
