package html

// zh holds the page's own words in Chinese; what is missing stays English.
var zh = map[string]string{
	"Skip to the verdict": "跳到结论", "Contents": "目录", "Theme": "主题", "auto": "自动", "dark": "深色", "light": "浅色",
	"Verdict": "结论", "cause": "原因", "Cost": "代价", "How sure": "可信度", "Do next": "下一步", "Not seen": "没有看到",
	"measured": "实测", "inferred": "推断", "hint": "线索", "Command": "命令", "Do not": "不要", "Do": "要做", "Copy": "复制", "Whole command": "完整命令",
	"Copied": "已复制", "Selected: copy it with the keyboard": "已选中，请用键盘复制", "Show": "显示", "more": "更多", "More columns": "更多列",
	"Show as table": "以表格显示", "Whole run": "整个运行", "Slowest step": "最慢的一步", "zoom": "缩放", "Dip": "下降",
	"drag to move, Ctrl + wheel to zoom, arrow keys when focused": "拖动平移，Ctrl + 滚轮缩放，聚焦后可用方向键",
	"Findings": "发现", "Unknown": "未知", "Pass": "通过", "Not asked": "未问", "Expand all": "全部展开", "Fold all": "全部收起",
	"Numbers against limits": "数值与界限", "Saving": "可节省", "Rows it rests on": "所依据的行", "Could it be something else?": "会不会是别的原因？",
	"Each subject": "逐个对象", "Advice withheld": "暂不给出的建议", "What would answer it": "怎样才能回答", "Show on the time line": "在时间线上显示",
	"choose a rank": "选择 rank", "late": "迟到", "median": "中位", "Hidden comm.": "隐藏通信", "GPU, rank": "GPU, rank", "limit": "界限",
	"Events": "事件", "Utilisation": "利用率", "Who held the GPU": "谁占用了 GPU", "held by": "占用者", "step": "步", "same step": "同一步", "no analysed step": "没有分析到的步", "Step by step": "逐步",
	"not recorded": "未记录", "to": "至", "Where to run it": "在哪里运行", "Answers": "可回答", "instant": "瞬时", "window before": "此前窗口",
	"total": "累计", "not read": "未读取", "not known": "未知", "steps": "步", "GPU": "GPU", "At, s": "开始, s", "Took, ms": "用时, ms", "Owners": "占用者",
	"Value": "数值", "Curve": "曲线", "Checks": "检查",
	"Left out so that the page stays small:":                        "为控制页面大小而略去：",
	"true intervals (zoom stops at the steps)":                      "逐段时间（缩放只到步）",
	"rows of GPUs that are neither late nor odd":                    "既不迟到也不异常的 GPU 行",
	"long tables after their first 200 rows":                        "长表 200 行之后的部分",
	"passes and unknowns that repeat one rule":                      "同一规则重复的通过与未知",
	"steps that are not among the slowest":                          "不属于最慢之列的步",
	"report.json has them all":                                      "report.json 中全部保留",
	"The first rows.":                                               "前若干行。",
	"Charts need scripts; the tables below hold the same readings.": "图表需要脚本；下方表格有同样的读数。",
}
